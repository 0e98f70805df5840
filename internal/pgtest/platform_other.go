//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package pgtest

import (
	"context"
	"errors"
)

type instance struct{}

func run(context.Context, []string) (*instance, error) {
	return nil, errors.New("pgtest: can't run a PostgreSQL on this platform; set DATABASE_URL")
}

func (*instance) address() string               { return "" }
func (*instance) url() string                   { return "" }
func (*instance) kill() error                   { return ErrForeign }
func (*instance) restart(context.Context) error { return ErrForeign }
func (*instance) remove() error                 { return nil }
