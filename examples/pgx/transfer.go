package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"sync/atomic"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

const (
	topic     = "bank.entries"
	tellers   = 8   // move money side by side
	transfers = 300 // those that are declined included
	accounts  = 10
	opening   = 1_000 // cents, on each account
)

const tables = `
	CREATE SCHEMA IF NOT EXISTS bank;
	CREATE TABLE IF NOT EXISTS bank.accounts (
		name    text   PRIMARY KEY,
		cents   bigint NOT NULL CHECK (cents >= 0),
		entries int    NOT NULL DEFAULT 0
	);
	CREATE TABLE IF NOT EXISTS bank.statements (
		account  text   PRIMARY KEY,
		cents    bigint NOT NULL,
		entries  int    NOT NULL DEFAULT 0,
		disorder int    NOT NULL DEFAULT 0
	);`

// entry is a line of an account's history, and the payload of the message about it.
type entry struct {
	Account string `json:"account"`
	Number  int    `json:"number"` // the account's first, second, third, … entry
	Cents   int64  `json:"cents"`  // negative where the money comes from
}

// bank is what the accounts belong to.
type bank struct {
	pool       *pgxpool.Pool
	run        string // begins the names of this run's accounts
	copies     atomic.Int64
	made, kept atomic.Int64 // transfers: all that were tried, and those that were not declined
}

func newBank(pool *pgxpool.Pool) *bank { return &bank{pool: pool, run: rand.Text()[:6]} }

// transfer moves money: both balances and both messages in one transaction.
func (b *bank) transfer(ctx context.Context, from, to string, cents int64) error {
	entries := []entry{{Account: from, Cents: -cents}, {Account: to, Cents: cents}}
	slices.SortFunc(entries, func(x, y entry) int { return cmp.Compare(x.Account, y.Account) }) // locked in one order: no deadlock
	return pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error {
		publisher, err := outbox.NewPgxPublisher(tx, outbox.PublisherConfig{}, nil)
		if err != nil {
			return err
		}
		for _, e := range entries {
			// The row is locked until the commit: so an account's entries are ordered, and its messages with them.
			err := tx.QueryRow(ctx, `UPDATE bank.accounts SET cents = cents + $2, entries = entries + 1
				WHERE name = $1 RETURNING entries`, e.Account, e.Cents).Scan(&e.Number)
			if err != nil {
				return err // the rollback takes what was published before with it
			}
			payload, err := json.Marshal(e)
			if err != nil {
				return err
			}
			msg := message.NewMessageWithContext(ctx, "", payload)
			outbox.SetKey(msg, e.Account) // what keeps the order
			if err := publisher.Publish(topic, msg); err != nil {
				return err
			}
		}
		return nil
	})
}

// trade opens the accounts and makes random transfers, some of which no account can pay.
func (b *bank) trade(ctx context.Context) error {
	for n := range accounts {
		if _, err := b.pool.Exec(ctx, `INSERT INTO bank.accounts (name, cents) VALUES ($1, $2)`, b.account(n), opening); err != nil {
			return err
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	for range tellers {
		group.Go(func() error {
			for b.made.Add(1) <= transfers {
				from := mathrand.IntN(accounts)
				to := (from + 1 + mathrand.IntN(accounts-1)) % accounts
				switch err := b.transfer(ctx, b.account(from), b.account(to), 1+mathrand.Int64N(opening/2)); {
				case err == nil:
					b.kept.Add(1)
				case !isOverdrawn(err):
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

func (b *bank) account(n int) string { return fmt.Sprintf("%s-%02d", b.run, n) }

// isOverdrawn says whether it was the database that declined a transfer.
func isOverdrawn(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && refused.ConstraintName == "accounts_cents_check"
}
