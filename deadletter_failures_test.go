package outbox_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

// barrier is a lock of the test's, and a trigger that waits for it when the last of the letters comes back to the outbox:
// at once, or at COMMIT.
const (
	barrier      = 4711
	barrierAtRow = `CREATE FUNCTION public.wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock_shared(4711); RETURN NEW; END $$;
		CREATE TRIGGER wait BEFORE INSERT ON public.outbox FOR EACH ROW WHEN (NEW.topic = 'last') EXECUTE FUNCTION public.wait()`
	barrierAtCommit = `CREATE FUNCTION public.wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock_shared(4711); RETURN NULL; END $$;
		CREATE CONSTRAINT TRIGGER wait AFTER INSERT ON public.outbox DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.topic = 'last') EXECUTE FUNCTION public.wait()`
)

// stopped is a Requeue of many letters that has come to the barrier.
type stopped struct {
	pool   *pgxpool.Pool // the operator's
	cancel context.CancelFunc
	open   func() // the barrier
	ended  chan error
}

func stopRequeueAt(t *testing.T, trigger string, discards bool) (*pgxpool.Pool, *stopped) {
	t.Helper()
	w := newWriting(t)
	pool := w.pool
	put(t, pool, "orders", "k", numbered(1, 5000)...)
	put(t, pool, "orders", "", numbered(1, 5000)...)
	put(t, pool, "last", "k", "last")
	bury(t, pool, "true")
	execute(t, pool, trigger)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	_, err = tx.Exec(t.Context(), `SELECT pg_advisory_xact_lock($1)`, barrier)
	require.NoError(t, err)

	s := &stopped{pool: poolOf(t, w.url, pgx.QueryExecModeCacheStatement), ended: make(chan error, 1)}
	s.open = func() { require.NoError(t, tx.Rollback(t.Context())) }
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	s.cancel = cancel
	d := deadLetters(t, s.pool)
	go func() {
		var err error
		if discards {
			_, err = d.Discard(ctx, outbox.DeadLetterFilter{IDs: []int64{1}})
		} else {
			_, err = d.Requeue(ctx, everyLetter)
		}
		s.ended <- err
	}()
	awaitWaiters(t, pool, 1)
	return pool, s
}

// terminate ends the backend that waits at the barrier.
func terminate(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	var ended bool
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT pg_terminate_backend(l.pid) FROM pg_locks l
		WHERE l.locktype = 'advisory' AND NOT l.granted AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())`).Scan(&ended))
	require.True(t, ended)
}

// requireNothingChanged checks that all letters are dead as they were, and that the operator has let go of everything.
func (s *stopped) requireNothingChanged(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	eventually(t, "the server has noticed", func() bool { return waiters(t, pool) == 0 })
	s.open()
	require.Zero(t, count(t, pool, "true"))
	require.Len(t, list(t, pool, everyLetter), 10_001)
	eventually(t, "the connection was given back", func() bool { return s.pool.Stat().AcquiredConns() == 0 })
	n, err := deadLetters(t, s.pool).Requeue(t.Context(), everyLetter)
	require.NoError(t, err)
	require.Equal(t, int64(10_001), n)
}

func TestAConnectionCutInTheMiddleChangesNothing(t *testing.T) {
	t.Parallel()
	for name, discards := range map[string]bool{"requeue": false, "discard": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool, s := stopRequeueAt(t, barrierAtRow, discards)
			terminate(t, pool)
			err := <-s.ended
			var answer *pgconn.PgError
			require.ErrorAs(t, err, &answer)
			require.Equal(t, "57P01", answer.Code)
			s.requireNothingChanged(t, pool)
		})
	}
}

func TestAContextCancelledInTheMiddleChangesNothing(t *testing.T) {
	t.Parallel()
	for name, discards := range map[string]bool{"requeue": false, "discard": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool, s := stopRequeueAt(t, barrierAtRow, discards)
			s.cancel()
			require.ErrorIs(t, <-s.ended, context.Canceled)
			s.requireNothingChanged(t, pool)
		})
	}
}

func TestAConnectionCutWhileCommittingIsSaidToBeUnclear(t *testing.T) {
	t.Parallel()
	pool, s := stopRequeueAt(t, barrierAtCommit, false)
	terminate(t, pool)
	require.ErrorContains(t, <-s.ended, `outbox: requeueing dead letters of "public"."outbox": the connection was lost while committing; whether it was done is not known, List tells: `)
	s.requireNothingChanged(t, pool)
}

// A COMMIT that has begun is waited for, so that the caller gets to know what happened.
func TestAContextCancelledWhileCommittingIsTooLate(t *testing.T) {
	t.Parallel()
	pool, s := stopRequeueAt(t, barrierAtCommit, false)
	s.cancel()
	s.open()
	require.NoError(t, <-s.ended)
	require.Equal(t, 10_001, count(t, pool, "true"))
	require.Empty(t, list(t, pool, everyLetter))
}

func TestACommitThatTheServerRefusesIsNoUnclearOne(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	put(t, pool, "orders", "k", "1")
	bury(t, pool, "true")
	execute(t, pool, `CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'refused'; END $$;
		CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON public.outbox DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.refuse()`)
	_, err := deadLetters(t, pool).Requeue(t.Context(), everyLetter)
	require.EqualError(t, err, `outbox: requeueing dead letters of "public"."outbox": ERROR: refused (SQLSTATE P0001)`)
	require.Len(t, list(t, pool, everyLetter), 1)
}

func TestAContextCancelledWhileWaitingForALaneChangesNothing(t *testing.T) {
	t.Parallel()
	pool := migrated(t)
	put(t, pool, "orders", "k", "1", "2")
	put(t, pool, "orders", "", numbered(1, 200)...)
	bury(t, pool, "true")
	giveBack := holdLane(t, pool, "k")
	ctx, cancel := context.WithCancel(t.Context())
	d, ended := deadLetters(t, pool), make(chan error, 1)
	go func() {
		_, err := d.Requeue(ctx, everyLetter)
		ended <- err
	}()
	awaitWaiters(t, pool, 1)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	eventually(t, "the server has noticed", func() bool { return waiters(t, pool) == 0 })
	require.Zero(t, count(t, pool, "true"))
	require.Len(t, list(t, pool, everyLetter), 202)
	giveBack()
	require.Equal(t, int64(202), requeue(t, pool, everyLetter))
}
