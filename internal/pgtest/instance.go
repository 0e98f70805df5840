//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// settings are those of every server. synchronous_commit stays on: off holds logical decoding back by up to 200 ms, and
// with fsync=off "on" costs nothing.
var settings = []string{
	"listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off", "full_page_writes=off", "wal_level=logical",
	"shared_buffers=64MB", "max_connections=200", "max_wal_senders=20", "max_replication_slots=20",
	"max_prepared_transactions=20", "dynamic_shared_memory_type=mmap", // in the folder, so that a killed server leaves none
}

const (
	nobody       = 65534 // initdb and postgres refuse to run as root
	startTimeout = 60 * time.Second
)

// instance is a server that this process runs: its folder, its port, and the process while there is one.
type instance struct {
	bin      string
	settings []string
	folder   *folder
	port     int

	mu   sync.Mutex
	proc *process // nil: not running
}

func run(ctx context.Context, extra []string) (*instance, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	folder, err := newFolder()
	if err != nil {
		return nil, err
	}
	i := &instance{bin: bin, settings: append(append([]string{}, settings...), extra...), folder: folder}
	if err := i.initialise(ctx); err != nil {
		return nil, errors.Join(err, i.remove())
	}
	return i, nil
}

func (i *instance) initialise(ctx context.Context) error {
	out, err := i.command("initdb", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync", "--no-instructions").CombinedOutput()
	if err != nil {
		return fmt.Errorf("pgtest: initdb: %w\n%s", err, out)
	}
	for try := 0; ; try++ { // a free port may be taken between the choice and the start
		if i.port, err = freePort(); err != nil {
			return err
		}
		i.mu.Lock()
		err = i.start(ctx)
		i.mu.Unlock()
		if err == nil || try == 2 || !strings.Contains(err.Error(), "could not bind") {
			return err
		}
	}
}

func (i *instance) address() string { return fmt.Sprintf("127.0.0.1:%d", i.port) }

func (i *instance) url() string {
	return "postgres://postgres@" + i.address() + "/postgres?sslmode=disable"
}

// command prepares a program of the server's, as an unprivileged user when we are root.
func (i *instance) command(name string, args ...string) *exec.Cmd {
	c := exec.Command(filepath.Join(i.bin, name), append([]string{"-D", i.folder.path + "/data"}, args...)...)
	c.Dir, c.SysProcAttr = i.folder.path, sysProcAttr()
	c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + i.folder.path, "LC_ALL=C", "TZ=UTC"}
	if os.Geteuid() == 0 {
		c.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	return c
}

// start starts postgres and waits until it takes connections. The caller holds mu.
func (i *instance) start(ctx context.Context) error {
	args := []string{"-p", fmt.Sprint(i.port)}
	for _, setting := range i.settings {
		args = append(args, "-c", setting)
	}
	proc, err := newProcess(i.command("postgres", args...))
	if err != nil {
		return fmt.Errorf("pgtest: %w", err)
	}
	if err := proc.ready(ctx, i.url()); err != nil {
		proc.end(syscall.SIGQUIT)
		return fmt.Errorf("pgtest: %w\n%s", err, proc.log)
	}
	i.proc = proc
	return nil
}

func (i *instance) kill() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.end(syscall.SIGKILL)
	return nil
}

func (i *instance) restart(ctx context.Context) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	i.end(syscall.SIGINT)
	for {
		err := i.start(ctx)
		// After a Kill, a child that was busy may live on for a moment and keep the shared memory.
		if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "still in use") {
			return err
		}
	}
}

func (i *instance) remove() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.end(syscall.SIGQUIT)
	return i.folder.remove()
}

func (i *instance) end(signal syscall.Signal) {
	if i.proc != nil {
		i.proc.end(signal)
		i.proc = nil
	}
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("pgtest: %w", err)
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// ready waits for the first connection.
func (p *process) ready(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, url)
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-p.ended:
			return errors.Join(errors.New("postgres ended"), p.err)
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}
