package main

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"
)

// deliver enters orders of one customer, by number, into a new ledger.
func deliver(t *testing.T, numbers ...int) ledger {
	t.Helper()
	l := ledger{deliveries: map[string]int{}, last: map[int]int{}}
	for _, n := range numbers {
		payload, err := json.Marshal(order{ID: string(rune('a' + n)), Customer: 7, Number: n})
		require.NoError(t, err)
		l.enter(message.NewMessage("", payload))
	}
	return l
}

func TestLedgerTellsDuplicatesFromDisorder(t *testing.T) {
	for _, test := range []struct {
		name                   string
		numbers                []int
		duplicates, outOfOrder int
	}{
		{"in order", []int{1, 2, 3}, 0, 0},
		{"once more, later", []int{1, 2, 1, 3}, 1, 0},
		{"overtaken", []int{1, 3, 2}, 0, 2},
		{"with a gap", []int{1, 3, 4}, 0, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := deliver(t, test.numbers...)
			require.Equal(t, test.duplicates, l.duplicates)
			require.Equal(t, test.outOfOrder, l.outOfOrder)
			require.NoError(t, l.unreadable)
		})
	}
}

func TestUnreadableMessageIsNotOverlooked(t *testing.T) {
	l := deliver(t)
	l.enter(message.NewMessage("odd", []byte("{")))
	require.ErrorContains(t, l.unreadable, "odd")
}

func TestReportShowsWhatIsBroken(t *testing.T) {
	for name, broken := range map[string]report{
		"lost": {lost: 1}, "leaked": {leaked: 1}, "out of order": {outOfOrder: 1}, "left": {left: 1},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			broken.print(newScreen(&out))
			require.False(t, broken.holds())
			require.Contains(t, out.String(), "✘ broken")
			require.Contains(t, out.String(), "An invariant is broken.")
		})
	}
	var out bytes.Buffer
	(&report{committed: 12345, forwarded: 12345}).print(newScreen(&out))
	require.Contains(t, out.String(), "12,345")
	require.NotContains(t, out.String(), "broken")
}
