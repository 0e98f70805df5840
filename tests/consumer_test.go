package tests

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

const (
	lineAck  = "ack"
	lineNack = "nack"
)

// produced is the outbox for what the consumers' handlers return. Nobody forwards it, so that it can be counted.
var produced = outbox.Schema{Table: "produced"}

var errFlaky = errors.New("the handler fails now and then")

// runConsumer is a consumer process: a router, the inbox, and a handler that fails and panics now and then.
func runConsumer(ctx context.Context, order childOrder) error {
	inbox, closeDatabase, err := openInbox(ctx, order, outbox.InboxConfig{Publisher: outbox.PublisherConfig{Schema: produced}})
	if err != nil {
		return err
	}
	defer closeDatabase()
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: patience}, nil)
	if err != nil {
		return err
	}
	retry := middleware.Retry{MaxRetries: 2, InitialInterval: time.Millisecond, ResetContextOnRetry: true}
	router.AddMiddleware(retry.Middleware, middleware.Timeout(patience), middleware.Recoverer, inbox.Middleware)
	router.AddHandler("count", topic, &exchangeSubscriber{address: order.Exchange}, "counted", noPublisher{}, countOrder)
	return router.Run(ctx)
}

// openInbox opens it with the driver of the order.
func openInbox(ctx context.Context, order childOrder, config outbox.InboxConfig) (*outbox.Inbox, func(), error) {
	if order.Driver == driverPgx {
		pool, err := pgxpool.New(ctx, order.URL)
		if err != nil {
			return nil, nil, err
		}
		inbox, err := outbox.NewPgxInbox(pool, config, nil)
		return inbox, pool.Close, err
	}
	db, err := sql.Open(strings.TrimSuffix(order.Driver, "/stdlib"), order.URL)
	if err != nil {
		return nil, nil, err
	}
	db.SetMaxOpenConns(4)
	inbox, err := outbox.NewInbox(db, config, nil)
	return inbox, func() { _ = db.Close() }, err
}

// countOrder books an order, and says so.
func countOrder(msg *message.Message) ([]*message.Message, error) {
	order := outbox.Key(msg) + "/" + string(msg.Payload)
	if err := book(msg.Context(), order); err != nil {
		return nil, err
	}
	switch p := rand.Float64(); {
	case p < 0.02:
		panic(errFlaky)
	case p < 0.1:
		return nil, errFlaky
	}
	return []*message.Message{message.NewMessage("", []byte(order))}, nil
}

func book(ctx context.Context, order string) error {
	for _, statement := range []string{
		`INSERT INTO public.booked VALUES ($1)`,
		`UPDATE public.totals SET orders = orders + 1 WHERE shard = abs(hashtext($1)) % 8`,
	} {
		var err error
		if tx, ok := outbox.PgxTxFromContext(ctx); ok {
			_, err = tx.Exec(ctx, statement, order)
		} else if tx, ok := outbox.TxFromContext(ctx); ok {
			_, err = tx.ExecContext(ctx, statement, order)
		} else {
			err = errors.New("no transaction in the handler's context")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// noPublisher is for messages that must not get past the inbox.
type noPublisher struct{}

// Publish refuses.
func (noPublisher) Publish(string, ...*message.Message) error {
	return errors.New("a handler's messages got past the inbox")
}

// Close does nothing.
func (noPublisher) Close() error { return nil }

// exchangeSubscriber receives from the exchange.
type exchangeSubscriber struct {
	address string
	conn    net.Conn
	running sync.WaitGroup
}

// Subscribe hands out messages side by side.
func (s *exchangeSubscriber) Subscribe(ctx context.Context, _ string) (<-chan *message.Message, error) {
	conn, err := net.Dial("tcp", s.address)
	if err != nil {
		return nil, err
	}
	s.conn = conn
	out := make(chan *message.Message)
	answers := make(chan string, window)
	s.running.Go(func() {
		for answer := range answers {
			_, _ = fmt.Fprintln(conn, answer) // else the exchange takes it for unanswered
		}
	})
	s.running.Go(func() {
		defer close(answers)
		defer close(out)
		var handling sync.WaitGroup
		defer handling.Wait()
		in := bufio.NewScanner(conn)
		for in.Scan() {
			fields := strings.Split(in.Text(), "\t")
			msg := message.NewMessageWithContext(ctx, fields[2], []byte(fields[3]))
			outbox.SetKey(msg, fields[1])
			select {
			case out <- msg:
			case <-ctx.Done():
				return
			}
			handling.Go(func() {
				select {
				case <-msg.Acked():
					answers <- fields[0] + "\t" + lineAck
				case <-msg.Nacked():
					answers <- fields[0] + "\t" + lineNack
				}
			})
		}
	})
	context.AfterFunc(ctx, func() { _ = conn.(*net.TCPConn).CloseRead() })
	return out, nil
}

// Close waits until all messages are answered.
func (s *exchangeSubscriber) Close() error {
	if s.conn == nil {
		return nil
	}
	_ = s.conn.(*net.TCPConn).CloseRead()
	s.running.Wait()
	return s.conn.Close()
}
