// Package testdb gives each test an empty database of its own, on one server a test binary.
package testdb

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/url"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/watermill-outbox/watermill-outbox/internal/pgtest"
)

const (
	startTimeout   = 5 * time.Minute // it may have to download
	cleanupTimeout = time.Minute
	maxConns       = 10 // a pool of New; two packages with two parallel tests each stay far below a server's 100
)

var shared struct {
	mu     sync.Mutex
	inMain bool
	server *pgtest.Server
	err    error
}

// Main is a package's TestMain. It runs the tests, stops the server if one was started, and exits with the tests' code.
func Main(m *testing.M) {
	shared.mu.Lock()
	shared.inMain = true
	shared.mu.Unlock()
	code := m.Run()
	if err := stop(); err != nil {
		fmt.Fprintln(os.Stderr, "testdb:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func stop() error {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.server == nil {
		return nil
	}
	return shared.server.Stop()
}

// Server gives the server that all tests of the binary share, started when the first one asks.
func Server(t testing.TB) *pgtest.Server {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if !shared.inMain {
		t.Fatal("testdb: TestMain must call testdb.Main, or the server would be left behind")
	}
	if shared.server == nil && shared.err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
		defer cancel()
		shared.server, shared.err = pgtest.Start(ctx)
	}
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.server
}

// Dedicated gives a server of the test's own, with extra "name=value" settings: to restart it, kill it, or change what
// is the whole server's. It ignores $DATABASE_URL.
func Dedicated(t testing.TB, settings ...string) *pgtest.Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	server, err := pgtest.Run(ctx, settings...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	return server
}

// New gives a pool of ten connections on an empty database, which is dropped when the test ends. The database's
// search_path is empty, so that an unqualified name fails at once.
func New(t testing.TB) *pgxpool.Pool {
	t.Helper()
	return Open(t, URL(t))
}

// URL gives the URL of an empty database like New's, for other drivers and processes.
func URL(t testing.TB) string {
	t.Helper()
	return Create(t, Server(t))
}

// Create makes an empty database on a given server and gives its URL. It is dropped when the test ends, if the server
// is still up.
func Create(t testing.TB, server *pgtest.Server) string {
	t.Helper()
	name := Random("test_")
	execute(t, server.URL, fmt.Sprintf(`CREATE DATABASE %s TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C'`, name),
		fmt.Sprintf(`ALTER DATABASE %s SET search_path = ''`, name))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
		defer cancel()
		conn, err := pgx.Connect(ctx, server.URL)
		if err != nil {
			return // killed by its test
		}
		defer func() { _ = conn.Close(ctx) }()
		if _, err := conn.Exec(ctx, fmt.Sprintf(`DROP DATABASE IF EXISTS %s WITH (FORCE)`, name)); err != nil {
			t.Error(err)
		}
	})
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal("testdb: DATABASE_URL must be a URL, not a list of keywords")
	}
	u.Path = "/" + name
	return u.String()
}

// Open gives a pool on a URL, closed when the test ends. Change adjusts its configuration first.
func Open(t testing.TB, url string, change ...func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = maxConns
	for _, f := range change {
		f(config)
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		closed := make(chan struct{})
		go func() { pool.Close(); close(closed) }()
		select {
		case <-closed:
		case <-time.After(cleanupTimeout):
			t.Error("testdb: connections were not given back to the pool")
		}
	})
	return pool
}

// Random gives a name that no other process on the server uses.
func Random(prefix string) string {
	b := make([]byte, 8)
	_, _ = rand.Read(b) // never fails
	return prefix + hex.EncodeToString(b)
}

func execute(t testing.TB, url string, statements ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			t.Fatal(err)
		}
	}
}
