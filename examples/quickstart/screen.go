package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/mattn/go-isatty"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// screen shows what happens: lines that stay, and on a terminal below them one that changes. Elsewhere that one becomes a
// plain line a second.
type screen struct {
	out      io.Writer
	terminal bool
	numbers  *message.Printer // writes 12,345
	began    time.Time

	mu     sync.Mutex
	status string // on a terminal: what the last line says
}

func newScreen(out io.Writer) *screen {
	s := &screen{out: out, numbers: message.NewPrinter(language.English), began: time.Now()}
	if file, ok := out.(*os.File); ok {
		s.terminal = isatty.IsTerminal(file.Fd()) || isatty.IsCygwinTerminal(file.Fd())
	}
	return s
}

func (s *screen) sprintf(format string, args ...any) string {
	return s.numbers.Sprintf(format, args...)
}

// colour does nothing where nobody sees it. The library knows NO_COLOR.
func (s *screen) colour(colour text.Color, words string) string {
	if !s.terminal {
		return words
	}
	return colour.Sprint(words)
}

func (s *screen) say(format string, args ...any) { s.line(s.sprintf(format, args...)) }
func (s *screen) good(format string, args ...any) {
	s.line(s.colour(text.FgGreen, s.sprintf(format, args...)))
}
func (s *screen) bad(format string, args ...any) {
	s.line(s.colour(text.FgYellow, s.sprintf(format, args...)))
}

// line prints a line that stays.
func (s *screen) line(words string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	clock := s.colour(text.Faint, fmt.Sprintf("%5.1f s", time.Since(s.began).Seconds()))
	s.write(clearLine(s.terminal) + clock + "  " + words + "\n" + s.status)
}

// watch shows a status until the returned function is called.
func (s *screen) watch(status func() string) (stop func()) {
	interval := time.Second
	if s.terminal {
		interval = 100 * time.Millisecond
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				s.update(status())
			case <-done:
				s.update("")
				return
			}
		}
	}()
	return func() { close(done); <-ended }
}

// update changes the status.
func (s *screen) update(status string) {
	switch {
	case s.terminal:
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.status = ""; status != "" {
			s.status = strings.Repeat(" ", 9) + s.colour(text.FgCyan, status)
		}
		s.write(clearLine(true) + s.status)
	case status != "":
		s.line(status)
	}
}

func (s *screen) write(text string) { _, _ = io.WriteString(s.out, text) }

func clearLine(terminal bool) string {
	if terminal {
		return "\r\x1b[K"
	}
	return ""
}
