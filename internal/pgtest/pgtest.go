// Package pgtest gives tests and examples a throw-away PostgreSQL: $DATABASE_URL when set, else one run from installed
// binaries ($PGBIN, PATH, well-known folders), else from a download by fergusstrange/embedded-postgres. It does not
// import testing, because examples link it.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"

	"github.com/jackc/pgx/v5"
)

// ErrForeign is returned by what only makes sense for a server that this package runs itself.
var ErrForeign = errors.New("pgtest: the server is someone else's ($DATABASE_URL)")

// Server is a running PostgreSQL.
type Server struct {
	// URL of the database "postgres", as a superuser, or whatever $DATABASE_URL says.
	URL string

	address string
	own     *instance // nil: someone else's
}

// Start gives $DATABASE_URL's server when that is set, else one of its own as Run does.
func Start(ctx context.Context, extra ...string) (*Server, error) {
	url := os.Getenv("DATABASE_URL")
	if url == "" {
		return Run(ctx, extra...)
	}
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("pgtest: $DATABASE_URL: %w", err)
	}
	return &Server{URL: url, address: net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port)))}, nil
}

// Run starts a server of its own, whatever $DATABASE_URL says. The extra settings, each "name=value", come after this
// package's and win.
func Run(ctx context.Context, extra ...string) (*Server, error) {
	own, err := run(ctx, extra)
	if err != nil {
		return nil, err
	}
	return &Server{URL: own.url(), address: own.address(), own: own}, nil
}

// Address is the server's host:port, for whoever puts something in between.
func (s *Server) Address() string { return s.address }

// Port is the server's port.
func (s *Server) Port() int {
	_, port, err := net.SplitHostPort(s.address)
	if err != nil {
		return 0
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return 0
	}
	return number
}

// Kill ends the postmaster with SIGKILL and returns when its children are gone too. Data folder and port stay, for
// Restart, which then recovers as after a crash.
func (s *Server) Kill() error {
	if s.own == nil {
		return ErrForeign
	}
	return s.own.kill()
}

// Restart shuts the server down (fast: it ends the sessions) unless it is down already, and starts it on the same data
// folder and port.
func (s *Server) Restart(ctx context.Context) error {
	if s.own == nil {
		return ErrForeign
	}
	return s.own.restart(ctx)
}

// Stop ends the server at once and removes its files. It does nothing to someone else's, nor the second time.
func (s *Server) Stop() error {
	if s.own == nil {
		return nil
	}
	return s.own.remove()
}
