// Package screen shows people what happens: lines that stay, and on a terminal below them one that changes.
package screen

import (
	"io"
	"strings"
	"sync"

	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// Screen is an io.Writer for whole lines, which stay above the changing one. It is safe for concurrent use.
type Screen struct {
	out  io.Writer
	live bool

	mu     sync.Mutex
	status string
}

// New makes a screen; live says whether out is a terminal.
func New(out io.Writer, live bool) *Screen { return &Screen{out: out, live: live} }

// Live says whether there is a line that changes.
func (s *Screen) Live() bool { return s.live }

// Write writes whole lines.
func (s *Screen) Write(lines []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.status == "" {
		return s.out.Write(lines)
	}
	if _, err := io.WriteString(s.out, clearLine+string(lines)+s.status); err != nil {
		return 0, err
	}
	return len(lines), nil
}

const (
	clearLine = "\r\x1b[K"
	// The status never takes more than a line: what is too long for that is cut off.
	wrapOff, wrapOn = "\x1b[?7l", "\x1b[?7h"
)

// Status changes the line that changes; "" takes it away. Where there is no terminal it does nothing.
func (s *Screen) Status(status string) {
	if !s.live {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if status != "" {
		status = wrapOff + text.FgCyan.Sprint(strings.ReplaceAll(status, "\n", " ")) + wrapOn
	}
	if status != s.status {
		s.status = status
		_, _ = io.WriteString(s.out, clearLine+status) // nobody need see it
	}
}

// Count says how many there are: 1 letter, 12,345 letters.
func Count[T int | int64](n T, one string) string {
	switch {
	case n == 1:
		return "1 " + one
	case strings.HasSuffix(one, "x"):
		return Sprintf("%d %ses", n, one)
	default:
		return Sprintf("%d %ss", n, one)
	}
}

// Sprintf writes numbers as people read them: 12,345.
func Sprintf(format string, args ...any) string {
	return message.NewPrinter(language.English).Sprintf(format, args...)
}
