package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"
)

const (
	clients  = 8               // post side by side
	patience = 3 * time.Minute // far more than it takes
)

// demo runs all roles in one process and lets things go wrong between them.
type demo struct {
	settings settings
	wanted   int64 // orders that are to be taken
	stdout   io.Writer
	run      string // begins the ids of this run's orders
	mailer   *fakeMailer
	broker   *redelivery
	client   *client
	copies   atomic.Int64 // that the inbox knew
	answers  answers
	cut      atomic.Int64 // connections of the forwarders
}

func newDemo(s settings, wanted int, stdout io.Writer) *demo {
	return &demo{
		settings: s, wanted: int64(wanted), stdout: stdout, run: rand.Text()[:6],
		mailer: &fakeMailer{logger: s.logger, failEvery: 7},
		broker: &redelivery{},
	}
}

// play returns when every order has its email, or with serve when ctx is done.
func (d *demo) play(ctx context.Context, serve bool) error {
	if err := migrate(ctx, d.settings); err != nil {
		return err
	}
	pool, err := d.settings.openPool(ctx, "demo")
	if err != nil {
		return err
	}
	defer pool.Close()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", d.settings.addr)
	if err != nil {
		return err
	}
	url := "http://" + listener.Addr().String()
	d.client = &client{url: url, http: &http.Client{Transport: &lossy{next: http.DefaultTransport}, Timeout: 30 * time.Second}}

	ctx, stop := context.WithCancel(ctx)
	defer stop()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return serveAPI(ctx, d.settings, listener) })
	for range 2 {
		group.Go(func() error { return runForward(ctx, d.settings, d.broker.decorate) })
	}
	group.Go(func() error {
		return runEmail(ctx, d.settings, d.mailer, func(*message.Message) { d.copies.Add(1) })
	})
	group.Go(func() error {
		defer stop()
		if err := d.show(ctx, pool); err != nil || !serve {
			return err
		}
		_, _ = fmt.Fprintf(d.stdout, serving, url)
		<-ctx.Done()
		return nil
	})
	return group.Wait()
}

const serving = `
Still up, until you press Ctrl-C:
  curl -i %[1]s/orders -H 'Idempotency-Key: my-first' -d '{"customer": "alice@example.com", "cents": 4200}'
  curl -i %[1]s/orders/my-first
  curl -i %[1]s/orders -d '{"customer": "alice", "cents": 4200}'
  curl -i %[1]s/orders -d '{"customer": "alice@example.com", "cents": 999999}'
`

// show posts orders, waits until each has its email, and prints what came of them.
func (d *demo) show(ctx context.Context, pool *pgxpool.Pool) error {
	if err := d.post(ctx, pool); err != nil {
		return err
	}
	if err := d.await(ctx, pool); err != nil {
		return err
	}
	return d.prove(ctx, pool)
}

// post posts orders, one in twelve of which is invalid and one in twelve declined. Half way, the forwarders are cut off.
func (d *demo) post(ctx context.Context, pool *pgxpool.Pool) error {
	var next atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for range clients {
		group.Go(func() error {
			for n := next.Add(1); n <= d.wanted*12/10; n = next.Add(1) {
				o := order{Customer: fmt.Sprintf("customer-%d@example.com", n%9), Cents: n}
				switch n % 12 {
				case 5:
					o.Customer = "nobody"
				case 11:
					o.Cents = 1_000_000
				}
				status, err := d.client.post(ctx, fmt.Sprintf("%s-%03d", d.run, n), o)
				if err != nil {
					return err
				}
				if err := d.answers.count(status); err != nil {
					return err
				}
				if n == d.wanted/2 {
					if err := d.cutForwarders(ctx, pool); err != nil {
						return err
					}
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// cutForwarders ends their connections, as an operator or a failing network would, whatever they are doing.
func (d *demo) cutForwarders(ctx context.Context, pool *pgxpool.Pool) error {
	var ended int64
	err := pool.QueryRow(ctx, `SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM pg_stat_activity
		WHERE application_name = 'orders forward' AND datname = current_database()`).Scan(&ended)
	d.cut.Store(ended)
	if err != nil {
		return errors.Join(errors.New("cutting the forwarders' connections"), err)
	}
	return nil
}
