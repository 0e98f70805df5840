package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5/pgxpool"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

const workers = 2 // of a forwarder

// forwarders move the outbox to the broker. Each stands for a process of its own, with its own connections: they know
// nothing of one another.
type forwarders []*forwarder

type forwarder struct {
	*outbox.Forwarder
	name  string
	pool  *pgxpool.Pool
	ended chan error
}

func startForwarders(ctx context.Context, d *database, publisher message.Publisher, count int) (forwarders, error) {
	var all forwarders
	for i := range count {
		f, err := startForwarder(ctx, d, publisher, fmt.Sprint("forwarder ", i+1))
		if err != nil {
			return nil, errors.Join(err, all.stop())
		}
		all = append(all, f)
	}
	return all, nil
}

func startForwarder(ctx context.Context, d *database, publisher message.Publisher, name string) (*forwarder, error) {
	config := outbox.ForwarderConfig{Schema: d.outbox(), Workers: workers}
	pool, err := d.connect(ctx, name, workers+1) // one a worker, and one more
	if err != nil {
		return nil, err
	}
	f := &forwarder{name: name, pool: pool, ended: make(chan error, 1)}
	if f.Forwarder, err = outbox.NewForwarder(pool, publisher, config, nil); err != nil {
		pool.Close()
		return nil, err
	}
	go func() { f.ended <- f.Run(ctx) }() // until ctx is done or Close is called
	select {
	case <-f.Running():
		return f, nil
	case err := <-f.ended:
		pool.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
}

// stop stops all of them gracefully: what is in flight ends, what was acknowledged is settled.
func (all forwarders) stop() error {
	var problems []error
	for _, f := range all {
		problems = append(problems, f.Close())
		f.pool.Close()
	}
	return errors.Join(problems...)
}

// health is what keeps the first of them that does not get on from doing so.
func (all forwarders) health() error {
	for _, f := range all {
		if err := f.Health(); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return nil
}
