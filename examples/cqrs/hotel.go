package main

import (
	"context"
	"errors"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

const tables = `
	CREATE SCHEMA IF NOT EXISTS hotel;
	CREATE TABLE IF NOT EXISTS hotel.requests (id text PRIMARY KEY);
	CREATE TABLE IF NOT EXISTS hotel.bookings (request text NOT NULL, guest text NOT NULL, cents bigint NOT NULL);
	CREATE TABLE IF NOT EXISTS hotel.beers    (guest text NOT NULL);
	CREATE TABLE IF NOT EXISTS hotel.reports  (guest text PRIMARY KEY, bookings int NOT NULL, cents bigint NOT NULL);`

// BookRoom is a command.
type BookRoom struct {
	Request, Guest string
	Cents          int64
}

// OrderBeer is a command.
type OrderBeer struct{ Guest string }

// RoomBooked is an event.
type RoomBooked struct {
	Guest string
	Cents int64
}

// Key keeps a guest's commands in order.
func (c *BookRoom) Key() string { return c.Guest }

// Key keeps a guest's commands in order.
func (c *OrderBeer) Key() string { return c.Guest }

// Key keeps a guest's events in order.
func (e *RoomBooked) Key() string { return e.Guest }

// hotel has the handlers. They know nothing of copies, and what they write and publish commits together or not at all.
type hotel struct {
	buses  *buses
	faults *faults
}

func (h *hotel) bookRoom(ctx context.Context, command *BookRoom) error {
	err := execute(ctx, `INSERT INTO hotel.bookings (request, guest, cents) VALUES ($1, $2, $3)`,
		command.Request, command.Guest, command.Cents)
	if err != nil {
		return err
	}
	// ctx carries the inbox's transaction to the bus.
	if err := h.buses.events.Publish(ctx, &RoomBooked{Guest: command.Guest, Cents: command.Cents}); err != nil {
		return err
	}
	return h.faults.power(command.Request) // when it fails, neither booking nor event was ever there
}

// welcome is a handler of events that sends a command.
func (h *hotel) welcome(ctx context.Context, event *RoomBooked) error {
	return h.buses.commands.Send(ctx, &OrderBeer{Guest: event.Guest})
}

func (h *hotel) report(ctx context.Context, event *RoomBooked) error {
	return execute(ctx, `
		INSERT INTO hotel.reports AS r (guest, bookings, cents) VALUES ($1, 1, $2)
		ON CONFLICT (guest) DO UPDATE SET bookings = r.bookings + 1, cents = r.cents + $2`, event.Guest, event.Cents)
}

func (h *hotel) orderBeer(ctx context.Context, command *OrderBeer) error {
	return execute(ctx, `INSERT INTO hotel.beers (guest) VALUES ($1)`, command.Guest)
}

// execute executes a statement in the inbox's transaction.
func execute(ctx context.Context, statement string, args ...any) error {
	tx, ok := outbox.TxFromContext(ctx)
	if !ok {
		return errors.New("there is no inbox around the handler")
	}
	_, err := tx.ExecContext(ctx, statement, args...)
	return err
}
