package scenario

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/benchmarks/measure"
	"github.com/watermill-outbox/watermill-outbox/benchmarks/relay"
	"github.com/watermill-outbox/watermill-outbox/benchmarks/report"
)

const publishBlock = 25 // transactions

var publishCost = Scenario{
	Name: "publish",
	About: "What an outbox row adds to a business transaction: the median time of BEGIN, INSERT of an order, messages, COMMIT, less " +
		"that of the same without messages. One writer, one and ten messages, over pgx and over database/sql, beside the stock " +
		"publisher and a plain INSERT. Small blocks of transactions, in alternating order.",
	Run: runPublish,
}

// business is one kind of transaction, measured again and again.
type business struct {
	name, driver string
	messages     int
	transact     transaction
	times        []time.Duration
}

func (b *business) median() float64 {
	return float64(measure.Percentile(b.times, 50)) / float64(time.Microsecond)
}

// writesSQL is a relay for both drivers.
type writesSQL interface {
	relay.Relay
	PublishSQL(tx *sql.Tx, topic string, messages ...*message.Message) error
}

func runPublish(ctx context.Context, env *Env) (results []report.Result, err error) {
	us, err := relay.NewOurs(relay.Fresh(env.Pool), "", outbox.ForwarderConfig{})
	if err != nil {
		return nil, err
	}
	stock, plain := relay.NewStockQueue(relay.Fresh(env.Pool), 100, 0), relay.NewNaive(relay.Fresh(env.Pool))
	relays := []relay.Relay{us, stock, plain}
	defer func() {
		for _, r := range relays {
			drop(ctx, r, &err)
		}
	}()
	for _, r := range relays {
		if err := r.Create(ctx); err != nil {
			return nil, err
		}
	}
	t, err := env.openTill(ctx, plain.Namespace())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.db.Close()) }()

	bare := []*business{
		{driver: "pgx", transact: t.pgx(nil)},
		{driver: "database/sql", transact: t.sql(nil)},
	}
	var all []*business
	for _, count := range []int{1, 10} {
		for _, r := range []writesSQL{us, stock} {
			all = append(all,
				&business{name: r.Name(), driver: "pgx", messages: count, transact: t.pgx(r.Publish)},
				&business{name: r.Name(), driver: "database/sql", messages: count, transact: t.sql(r.PublishSQL)})
		}
		all = append(all, &business{name: "a plain INSERT", driver: "pgx", messages: count, transact: t.pgx(plain.Publish)})
	}
	blocks := env.count(60, 2)
	if err := transactAll(ctx, append(all, bare...), blocks); err != nil {
		return nil, err
	}
	for _, r := range relays {
		want := int64(0)
		for _, b := range all {
			if b.name == r.Name() || r == plain && b.name == "a plain INSERT" {
				want += int64(b.messages * blocks * publishBlock)
			}
		}
		if got, err := r.Pending(ctx); err != nil || got != want {
			return nil, errors.Join(fmt.Errorf("%s wrote %d messages instead of %d", r.Name(), got, want), err)
		}
	}
	return comparePublish(all, bare), nil
}

func transactAll(ctx context.Context, all []*business, blocks int) error {
	index := 0
	for block := range blocks {
		for _, i := range measure.Alternate(len(all), block) {
			b := all[i]
			for range publishBlock {
				messages := make([]*message.Message, b.messages)
				for m := range messages {
					messages[m] = measure.NewMessage(ctx, index, measure.Unkeyed, 0, payloadSize)
					index++
				}
				began := time.Now()
				if err := b.transact(ctx, messages); err != nil {
					return fmt.Errorf("%s over %s: %w", b.name, b.driver, err)
				}
				b.times = append(b.times, time.Since(began))
			}
		}
	}
	return nil
}

// comparePublish holds ours against the others with the same driver and number of messages.
func comparePublish(all, bare []*business) []report.Result {
	without := map[string]float64{}
	for _, b := range bare {
		without[b.driver] = b.median()
	}
	var results []report.Result
	for _, us := range all {
		if us.name != "ours" {
			continue
		}
		metric := fmt.Sprintf("added by %d message(s), %s", us.messages, us.driver)
		added := us.median() - without[us.driver]
		for _, them := range all {
			if them.name != "ours" && them.driver == us.driver && them.messages == us.messages {
				results = append(results, report.New("publish", metric, "µs", added, them.median()-without[us.driver], them.name))
			}
		}
		metric = fmt.Sprintf("whole transaction, %d message(s), %s", us.messages, us.driver)
		results = append(results, report.New("publish", metric, "µs", us.median(), without[us.driver], "no message"))
	}
	return results
}

// till takes orders, over either driver.
type till struct {
	env    *Env
	db     *sql.DB
	insert string
}

func (e *Env) openTill(ctx context.Context, namespace string) (*till, error) {
	orders := pgx.Identifier{namespace, "orders"}.Sanitize()
	_, err := e.Pool.Exec(ctx, `CREATE TABLE `+orders+` (id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
		customer text NOT NULL, cents bigint NOT NULL, at timestamptz NOT NULL DEFAULT now())`)
	if err != nil {
		return nil, fmt.Errorf("business table: %w", err)
	}
	insert := `INSERT INTO ` + orders + ` (customer, cents) VALUES ($1, $2)`
	return &till{env: e, db: stdlib.OpenDBFromPool(e.Pool), insert: insert}, nil
}

type transaction func(ctx context.Context, messages []*message.Message) error

func (t *till) pgx(publish func(pgx.Tx, string, ...*message.Message) error) transaction {
	return func(ctx context.Context, messages []*message.Message) error {
		return pgx.BeginFunc(ctx, t.env.Pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, t.insert, "somebody", 1999); err != nil || len(messages) == 0 {
				return err
			}
			return publish(tx, measure.Topic, messages...)
		})
	}
}

func (t *till) sql(publish func(*sql.Tx, string, ...*message.Message) error) transaction {
	return func(ctx context.Context, messages []*message.Message) (err error) {
		tx, err := t.db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() {
			if err != nil {
				err = errors.Join(err, tx.Rollback())
			}
		}()
		if _, err = tx.ExecContext(ctx, t.insert, "somebody", 1999); err != nil {
			return err
		}
		if len(messages) > 0 {
			if err = publish(tx, measure.Topic, messages...); err != nil {
				return err
			}
		}
		return tx.Commit()
	}
}
