package outbox_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

// permutations gives all orders of a list.
func permutations(list []string) (all [][]string) {
	if len(list) == 0 {
		return [][]string{nil}
	}
	for i, first := range list {
		rest := slices.Delete(slices.Clone(list), i, i+1)
		for _, order := range permutations(rest) {
			all = append(all, append([]string{first}, order...))
		}
	}
	return all
}

// panicsFirst panics instead of failing.
func panicsFirst() message.HandlerFunc {
	h := failsTimes(1)
	return func(msg *message.Message) ([]*message.Message, error) {
		out, err := h(msg)
		if err != nil {
			panic(err)
		}
		return out, nil
	}
}

// deliverAll hands copies of a message to a chain as a broker and a router do: until one is acknowledged, and then another.
func deliverAll(t *testing.T, h message.HandlerFunc, id string) {
	t.Helper()
	acked := 0
	for range 10 {
		func() {
			defer func() { _ = recover() }() // the router's
			if handle(h, incoming(t, id)) == nil {
				acked++
			}
		}()
		if acked == 2 {
			return
		}
	}
	t.Fatal("never acknowledged")
}

// Of all 120 orders those are right in which PoisonQueue is outside Retry, and that outside Inbox, and Recoverer is not
// between the first two, where a panic is poisoned untried. The documentation names one of them. That Timeout must be inside
// Retry another test shows.
func TestOfAllOrdersThoseThatAreDocumentedAreRight(t *testing.T) {
	t.Parallel()
	onEachDriver(t, func(t *testing.T, c consuming) {
		grave := newBroker()
		poison, err := middleware.PoisonQueue(grave, "poison")
		require.NoError(t, err)
		middlewares := map[string]message.HandlerMiddleware{
			"poison": poison, "retry": retry, "timeout": middleware.Timeout(time.Minute), "recoverer": middleware.Recoverer,
			"inbox": c.inbox(t, 1, outbox.InboxConfig{Consumer: "shop", PublishTopic: "done"}).Middleware,
		}
		right := 0
		for _, order := range permutations([]string{"poison", "retry", "timeout", "recoverer", "inbox"}) {
			fateOf := func(h message.HandlerFunc, scenario string) fate {
				for _, name := range slices.Backward(order) {
					h = middlewares[name](h)
				}
				id := strings.Join(order, ">") + " " + scenario
				before := len(grave.all())
				deliverAll(t, h, id)
				return fate{effects: c.effects(t, id), recorded: c.recorded(t, id), poisoned: len(grave.all()) - before}
			}
			good := fate{effects: 1, recorded: 1}
			ok := fateOf(failsTimes(2), "fails twice") == good
			ok = fateOf(panicsFirst(), "panics once") == good && ok
			ok = fateOf(failsTimes(always), "fails always") == fate{poisoned: 2} && ok // each copy of it
			at := func(name string) int { return slices.Index(order, name) }
			want := at("poison") < at("retry") && at("retry") < at("inbox") &&
				(at("recoverer") < at("poison") || at("retry") < at("recoverer"))
			require.Equal(t, want, ok, fmt.Sprint(order))
			if ok {
				right++
			}
		}
		require.Equal(t, 15, right)
	})
}
