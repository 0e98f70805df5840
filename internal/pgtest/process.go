//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package pgtest

import (
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// process is a running postmaster.
type process struct {
	cmd   *exec.Cmd
	log   *logTail
	ended chan struct{} // closed after err is set
	err   error
}

// newProcess starts cmd. Its output goes through a pipe that the children inherit, so that it has ended only when they
// have, too.
func newProcess(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, log: &logTail{}, ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = p.log, p.log, 10*time.Second
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.err = cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// end sends the signal and waits.
func (p *process) end(signal syscall.Signal) {
	_ = p.cmd.Process.Signal(signal) // an error says that it has ended
	<-p.ended
}

// logTail keeps the end of a log, for error messages.
type logTail struct {
	mu   sync.Mutex
	text []byte
}

const logTailBytes = 16 << 10

func (l *logTail) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, b...)
	if n := len(l.text); n > 2*logTailBytes {
		l.text = append([]byte(nil), l.text[n-logTailBytes:]...)
	}
	return len(b), nil
}

func (l *logTail) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}
