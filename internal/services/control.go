package services

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	startTimeout  = 30 * time.Second
	scriptTimeout = 5 * time.Minute // it may wait for a loaded machine, but installs nothing here
	script        = "scripts/services"
)

// Controlled is a real service that one test has for itself, to stop it, kill it and start it again. Its address stays the
// same, and so do its data. Safe for concurrent use.
type Controlled struct {
	// Address is what Kafka, AMQP, NATS, … would give.
	Address string

	name        string
	root        string
	environment []string
}

// Control starts a real service of the test's own, which ends with the test, where a shared one is given by the
// environment: one that others use is not to be stopped. Otherwise isReal is false, and the test uses a stand-in.
func Control(t testing.TB, name string) (service *Controlled, isReal bool) {
	t.Helper()
	if address(t, name) == "" {
		return nil, false
	}
	service, err := newControlled(t, name)
	if err != nil {
		t.Fatal(err)
	}
	return service, true
}

// Stop ends the service gracefully, and returns when it has ended.
func (c *Controlled) Stop() error { return c.verb("stop") }

// Kill ends the service with SIGKILL, and returns when it has ended.
func (c *Controlled) Kill() error { return c.verb("kill") }

// Start starts it again, and returns when it serves.
func (c *Controlled) Start() error { return c.verb("start") }

func (c *Controlled) verb(verb string) error {
	_, err := c.run(verb, c.name)
	return err
}

// newControlled starts a set of services in a folder below that of the shared ones, so that what a killed test binary
// leaves behind ends with them.
func newControlled(t testing.TB, name string) (*Controlled, error) {
	t.Helper()
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	sets, err := setsFolder()
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ { // a free port may be taken between the choice and the start
		c, err := startSet(t, root, sets, name)
		if err == nil || try == 3 {
			return c, err
		}
	}
}

func startSet(t testing.TB, root, sets, name string) (*Controlled, error) {
	t.Helper()
	folder, err := os.MkdirTemp(sets, "set-")
	if err != nil {
		return nil, fmt.Errorf("services: %w", err)
	}
	base, err := freePortBase()
	if err != nil {
		return nil, err
	}
	c := &Controlled{name: name, root: root, environment: append(os.Environ(),
		"OUTBOX_SERVICES_DIR="+folder, "OUTBOX_SERVICES_PORT_BASE="+strconv.Itoa(base))}
	down := func() error {
		_, err := c.run("down")
		return errors.Join(err, os.RemoveAll(folder))
	}
	if err := os.Chmod(folder, 0o755); err != nil { // the servers run as another user, if this is root
		return nil, errors.Join(fmt.Errorf("services: %w", err), down())
	}
	if _, err := c.run("up", name); err != nil {
		return nil, errors.Join(err, down())
	}
	t.Cleanup(func() {
		if err := down(); err != nil {
			t.Error(err)
		}
	})
	c.Address, err = c.address(name)
	return c, err
}

func (c *Controlled) address(name string) (string, error) {
	env, err := c.run("env")
	if err != nil {
		return "", err
	}
	_, rest, found := strings.Cut(env, "export "+variables[name]+"=")
	if !found {
		return "", fmt.Errorf("services: %s env names no %s:\n%s", script, variables[name], env)
	}
	address, _, _ := strings.Cut(rest, "\n")
	return strings.Trim(address, "'"), nil
}

// run gives what scripts/services prints.
func (c *Controlled) run(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), scriptTimeout)
	defer cancel()
	var stdout, stderr strings.Builder
	command := exec.CommandContext(ctx, filepath.Join(c.root, script), args...)
	command.Env, command.Stdout, command.Stderr = c.environment, &stdout, &stderr
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("services: %s %s: %w\n%s%s", script, strings.Join(args, " "), err, stdout.String(), stderr.String())
	}
	return stdout.String(), nil
}

// setsFolder is where scripts/services down looks for the sets of tests that were killed.
func setsFolder() (string, error) {
	folder := os.Getenv("OUTBOX_SERVICES_DIR")
	if folder == "" {
		folder = os.TempDir()
	}
	folder = filepath.Join(folder, "sets")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", fmt.Errorf("services: %w", err)
	}
	return folder, nil
}

// moduleRoot is the nearest folder above the test's that has the script.
func moduleRoot() (string, error) {
	folder, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("services: %w", err)
	}
	for ; ; folder = filepath.Dir(folder) {
		if info, err := os.Stat(filepath.Join(folder, script)); err == nil && info.Mode().IsRegular() {
			return folder, nil
		}
		if folder == filepath.Dir(folder) {
			return "", fmt.Errorf("services: no %s above the test's folder", script)
		}
	}
}

// freePortBase chooses the ports of a set: below those that the system gives away, and none of them in use.
func freePortBase() (int, error) {
	const first, sets, ports = 24000, 140, 60
	for range sets {
		base := first + ports*rand.IntN(sets)
		if allFree(base, ports) {
			return base, nil
		}
	}
	return 0, fmt.Errorf("services: no %d free ports in a row from %d on", ports, first)
}

func allFree(first, ports int) bool {
	for port := first; port < first+ports; port++ {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			return false
		}
		_ = l.Close()
	}
	return true
}
