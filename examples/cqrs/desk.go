package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/components/cqrs"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

const (
	requests = 60 // that guests make
	guests   = 7
)

var errChangedMind = errors.New("the guest has changed their mind")

// desk is where guests ask for rooms.
type desk struct {
	db       *sql.DB
	commands *cqrs.CommandBus
	run      string // begins the names of this run's guests

	cancelled int
}

func newDesk(db *sql.DB, commands *cqrs.CommandBus) *desk {
	return &desk{db: db, commands: commands, run: rand.Text()[:6]}
}

// welcome takes the requests; one guest in six changes their mind.
func (d *desk) welcome(ctx context.Context) error {
	for n := range requests {
		command := &BookRoom{
			Request: fmt.Sprintf("%s-%02d", d.run, n),
			Guest:   fmt.Sprintf("%s-guest-%d", d.run, n%guests),
			Cents:   int64(10_000 + n),
		}
		err := d.request(ctx, command, n%6 == 5)
		if errors.Is(err, errChangedMind) {
			d.cancelled++
		} else if err != nil {
			return err
		}
	}
	return nil
}

// request writes a request and sends the command in one transaction.
func (d *desk) request(ctx context.Context, command *BookRoom, cancel bool) error {
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit: nothing
	if _, err := tx.ExecContext(ctx, `INSERT INTO hotel.requests (id) VALUES ($1)`, command.Request); err != nil {
		return err
	}
	if err := d.commands.Send(outbox.ContextWithTx(ctx, tx), command); err != nil {
		return err
	}
	if cancel {
		return errChangedMind // the rollback takes the command with it
	}
	return tx.Commit()
}
