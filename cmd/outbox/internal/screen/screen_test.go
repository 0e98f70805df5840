package screen

import (
	"bytes"
	"fmt"
	"sync"
	"testing"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/stretchr/testify/require"
)

func TestLinesStayAboveTheOneThatChanges(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s := New(&out, true)
	s.Status("one")
	_, err := fmt.Fprintln(s, "a line")
	require.NoError(t, err)
	s.Status("")
	_, err = fmt.Fprintln(s, "another")
	require.NoError(t, err)
	line := "\x1b[?7l" + text.FgCyan.Sprint("one") + "\x1b[?7h"
	require.Equal(t, "\r\x1b[K"+line+"\r\x1b[Ka line\n"+line+"\r\x1b[Kanother\n", out.String())
}

func TestWithoutATerminalNothingChanges(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s := New(&out, false)
	s.Status("one")
	_, err := fmt.Fprintln(s, "a line")
	require.NoError(t, err)
	require.Equal(t, "a line\n", out.String())
}

func TestManyMayWrite(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s := New(&out, true)
	var writers sync.WaitGroup
	for range 8 {
		writers.Go(func() {
			for range 100 {
				s.Status("status")
				_, _ = fmt.Fprintln(s, "line")
			}
		})
	}
	writers.Wait()
	require.Equal(t, 800, bytes.Count(out.Bytes(), []byte("line\n")))
	require.Equal(t, []string{"1 letter", "2,000 letters", "0 outboxes"}, []string{Count(1, "letter"), Count(int64(2000), "letter"), Count(0, "outbox")})
	require.Equal(t, "12,345 of 1,000,000", Sprintf("%d of %d", 12345, 1000000))
}
