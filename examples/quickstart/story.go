package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

// When things happen, as shares of the trading.
const (
	poisonComes   = 0.10
	brokerFails   = 0.25
	brokerReturns = 0.50
	connectionCut = 0.70
)

// patience is how long nothing may leave the outbox after the shop has closed, before it counts as stuck.
const patience = 20 * time.Second

// story is who takes part.
type story struct {
	screen     *screen
	database   *database
	broker     *broker
	consumer   *consumer
	forwarders forwarders
	shop       *shop
	requeued   requeued
}

// tell plays the whole story, and reports what came of it.
func tell(ctx context.Context, options options, screen *screen) (r *report, err error) {
	screen.say("Starting PostgreSQL (with none installed, it is downloaded once).")
	database, err := openDatabase(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, database.close()) }()

	s := &story{screen: screen, database: database, broker: newBroker()}
	if s.consumer, err = startConsumer(ctx, database, s.broker); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.consumer.close()) }() // a second time: nothing
	if s.forwarders, err = startForwarders(ctx, database, s.broker, 3); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.forwarders.stop()) }() // a second time: nothing
	if s.shop, err = openShop(database, options); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.shop.close()) }()

	screen.say("The shop is open: %d clerks, %d customers. Three forwarders are at work.", clerks, customers)
	stopWatching := screen.watch(s.status)
	err = s.play(ctx)
	stopWatching()
	if err != nil {
		return nil, err
	}
	return s.end(ctx)
}

// play returns when the shop has closed and the outbox is empty, or does not get empty.
func (s *story) play(ctx context.Context) error {
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.shop.trade(groupCtx) })
	group.Go(func() error { return s.goWrong(groupCtx) })
	if err := group.Wait(); err != nil {
		return err
	}
	s.screen.say("The shop has closed. What is left in the outbox goes out.")
	if err := s.awaitEmptyOutbox(ctx); err != nil {
		return err
	}
	var err error
	s.requeued, err = s.repair(ctx)
	return err
}

// goWrong lets things go wrong while the shop trades.
func (s *story) goWrong(ctx context.Context) error {
	if err := s.reach(ctx, poisonComes); err != nil {
		return err
	}
	s.broker.chokes.Store(true)
	s.screen.bad("The broker chokes on the next order of %s, for good.", keyOf(regular))

	if err := s.reach(ctx, brokerFails); err != nil {
		return err
	}
	s.broker.down.Store(true)
	s.screen.bad("The broker goes down. The shop does not notice: its orders pile up in the outbox.")

	if err := s.reach(ctx, brokerReturns); err != nil {
		return err
	}
	if err := s.forwarders.health(); err != nil {
		s.screen.say("Health says: %v", err)
	}
	s.broker.down.Store(false)
	s.screen.good("The broker is back, after %d refused publishes. None was charged to a message.", s.broker.refused.Load())

	if err := s.reach(ctx, connectionCut); err != nil {
		return err
	}
	victim := s.forwarders[1].name
	ended, err := s.database.cut(ctx, victim)
	if err != nil {
		return err
	}
	s.screen.bad("All %d connections of %s are cut, whatever it was doing.", ended, victim)
	return nil
}

// reach waits until a share of the trading is over.
func (s *story) reach(ctx context.Context, share float64) error {
	return poll(ctx, 5*time.Millisecond, func() (bool, error) { return s.shop.progress() >= share, nil })
}

func (s *story) awaitEmptyOutbox(ctx context.Context) error {
	last, since := -1, time.Now()
	return poll(ctx, 50*time.Millisecond, func() (bool, error) {
		left, err := s.left(ctx)
		if left != last {
			last, since = left, time.Now()
		}
		return left == 0 || time.Since(since) > patience, err
	})
}

// left is the number of messages that are still in the outbox.
func (s *story) left(ctx context.Context) (int, error) {
	stats, err := outbox.ReadStats(ctx, s.database.pool, s.database.outbox())
	return int(stats.Ready + stats.Delayed + stats.Retrying + stats.Parked), err
}

func (s *story) status() string {
	arrived := s.consumer.arrived()
	orders := max(int(s.shop.committed.Load()), arrived) // an order may arrive before its clerk has heard of the commit
	return s.screen.sprintf("%d orders, %d arrived, %d on their way", orders, arrived, orders-arrived)
}

// end stops everything and draws the balance.
func (s *story) end(ctx context.Context) (*report, error) {
	if err := s.forwarders.stop(); err != nil {
		return nil, fmt.Errorf("stopping the forwarders: %w", err)
	}
	if err := s.consumer.close(); err != nil {
		return nil, err
	}
	r := &report{
		rolledBack: int(s.shop.rolledBack.Load()),
		suppressed: int(s.consumer.suppressed.Load()),
		dead:       s.requeued,
	}
	var err error
	if r.left, err = s.left(ctx); err != nil {
		return nil, err
	}
	err = r.count(ctx, s.database.pool)
	return r, err
}

// poll asks again and again until the answer is yes, an error, or ctx is done.
func poll(ctx context.Context, interval time.Duration, done func() (bool, error)) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
