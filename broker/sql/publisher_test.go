package sql_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker"
	"github.com/watermill-outbox/watermill-outbox/broker/sql"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

func TestARefusedMessageInTheMiddleHoldsBackItsKeyOnly(t *testing.T) {
	url := testdb.URL(t)
	pool := testdb.Open(t, url)
	b := open(t, with(t, url), "")
	var batch []outbox.Outgoing
	want := []string{}
	for n := range 20 {
		hot := outgoing("hot", "hot", fmt.Sprint(n))
		switch {
		case n == 10:
			hot = tooLong("hot", "hot")
		case n < 10:
			want = append(want, fmt.Sprint(n))
		}
		batch = append(batch, hot, outgoing("other", "other", fmt.Sprint(n)), outgoing("other", "", "u"))
	}
	for i, err := range publishBatch(t, b, batch...) {
		switch n := i / 3; {
		case i%3 != 0 || n < 10:
			require.NoError(t, err)
		case n == 10:
			require.Equal(t, outbox.FailurePermanent, b.Classify(err), err)
		default:
			require.ErrorIs(t, err, outbox.ErrHeldBack)
		}
	}
	require.Equal(t, want, stored(t, pool, "hot"))
	require.Len(t, stored(t, pool, "other"), 40)
}

// The verdict of one must not depend on where it stands among other refused ones.
func TestEachRefusedMessageIsFound(t *testing.T) {
	url := testdb.URL(t)
	pool := testdb.Open(t, url)
	b := open(t, with(t, url), "")
	var batch []outbox.Outgoing
	for n := range 64 {
		if n%7 == 0 {
			batch = append(batch, tooLong("topic", fmt.Sprint("k", n)))
		} else {
			batch = append(batch, outgoing("topic", fmt.Sprint("k", n), fmt.Sprint(n)))
		}
	}
	for n, err := range publishBatch(t, b, batch...) {
		require.Equal(t, n%7 == 0, err != nil, "%d: %v", n, err)
	}
	require.Len(t, stored(t, pool, "topic"), 64-10)
}

func TestTopicsThatCanBeNoTables(t *testing.T) {
	url := testdb.URL(t)
	pool := testdb.Open(t, url)
	b := open(t, with(t, url), "")
	longest := strings.Repeat("x", 45)
	for _, topic := range []string{"", `a"; DROP TABLE b; --`, "naïve", "a b", "a/b", "offsets_orders", longest + "x"} {
		verdicts := publishBatch(t, b, outgoing(topic, "a", "1"), outgoing("good", "a", "2"), outgoing("good", "b", "3"))
		var invalid *sql.InvalidTopicError
		require.ErrorAs(t, verdicts[0], &invalid, topic)
		require.Equal(t, topic, invalid.Topic)
		require.Equal(t, outbox.FailurePermanent, b.Classify(verdicts[0]))
		require.ErrorIs(t, verdicts[1], outbox.ErrHeldBack)
		require.NoError(t, verdicts[2])
	}
	for _, topic := range []string{longest, "a.b:c$d-e_F0", "offsets"} {
		require.NoError(t, publishBatch(t, b, outgoing(topic, "", topic))[0])
		require.Equal(t, []string{topic}, stored(t, pool, topic))
	}
}

func TestPublishStopsAtTheFirstError(t *testing.T) {
	url := testdb.URL(t)
	pool := testdb.Open(t, url)
	b := open(t, with(t, url), "")
	bad := tooLong("topic", "")
	err := b.Publisher().Publish("topic", outgoing("", "", "1").Message, outgoing("", "", "2").Message, bad.Message, outgoing("", "", "4").Message)
	require.Equal(t, outbox.FailurePermanent, b.Classify(err), err)
	require.Equal(t, []string{"1", "2"}, stored(t, pool, "topic"))
}

// Some of what is refused is refused by the commit, and so after the statements' own answers.
func TestACommitThatFailsIsAFailure(t *testing.T) {
	url := testdb.URL(t)
	pool := testdb.Open(t, url)
	b := open(t, with(t, url), "")
	require.NoError(t, publishBatch(t, b, outgoing("topic", "", "first"))[0])
	execute(t, pool, `CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE data_exception; END $$;
		CREATE CONSTRAINT TRIGGER late AFTER INSERT ON public.watermill_topic DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
		WHEN (NEW.payload = 'bad') EXECUTE FUNCTION public.refuse()`)
	verdicts := publishBatch(t, b, outgoing("topic", "", "bad"), outgoing("topic", "", "good"))
	require.Equal(t, outbox.FailurePermanent, b.Classify(verdicts[0]), verdicts[0])
	require.NoError(t, verdicts[1])
	require.Equal(t, []string{"first", "good"}, stored(t, pool, "topic"))
}

func TestACommitIsOnTheDisk(t *testing.T) {
	url := testdb.URL(t)
	pool := testdb.Open(t, url)
	execute(t, pool, `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET synchronous_commit = off', current_database()); END $$`)
	b := open(t, with(t, url), "")
	require.NoError(t, publishBatch(t, b, outgoing("topic", "", "first"))[0])
	execute(t, pool, `ALTER TABLE public.watermill_topic ADD COLUMN how text DEFAULT current_setting('synchronous_commit')`)
	require.NoError(t, b.Publisher().Publish("topic", outgoing("", "", "second").Message))
	var how string
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT how FROM public.watermill_topic WHERE payload = 'second'`).Scan(&how))
	require.Equal(t, "local", how)
}

func TestTheFirstUseOfATopicAtManyPlaces(t *testing.T) {
	url := testdb.URL(t)
	pool := testdb.Open(t, url)
	var group sync.WaitGroup
	verdicts := make(chan error, 100)
	for n := range 6 {
		b := open(t, with(t, url), fmt.Sprint("group", n))
		group.Go(func() { verdicts <- publishBatch(t, b, outgoing("topic", "", "x"))[0] })
		group.Go(func() {
			subscriber, err := b.Subscriber()
			if err == nil {
				_, err = subscriber.Subscribe(context.WithoutCancel(t.Context()), "topic")
			}
			verdicts <- err
		})
	}
	group.Wait()
	close(verdicts)
	for err := range verdicts {
		require.NoError(t, err)
	}
	require.Len(t, stored(t, pool, "topic"), 6)
}

func TestATableThatIsDroppedIsMadeAgain(t *testing.T) {
	url := testdb.URL(t)
	pool := testdb.Open(t, url)
	b := open(t, with(t, url), "")
	require.NoError(t, publishBatch(t, b, outgoing("topic", "", "1"))[0])
	execute(t, pool, `DROP TABLE public.watermill_topic`)
	require.NoError(t, publishBatch(t, b, outgoing("topic", "", "2"))[0])
	require.Equal(t, []string{"2"}, stored(t, pool, "topic"))
}

func TestWithoutCreateTopicsAnUnknownTopicIsPermanent(t *testing.T) {
	url := testdb.URL(t)
	known := open(t, with(t, url), "")
	require.NoError(t, publishBatch(t, known, outgoing("known", "", "1"))[0])
	b := open(t, with(t, url, "create_topics", "false"), "group")
	verdicts := publishBatch(t, b, outgoing("known", "a", "2"), outgoing("unknown", "b", "3"), outgoing("known", "b", "4"), outgoing("known", "c", "5"))
	require.NoError(t, verdicts[0])
	require.Equal(t, outbox.FailurePermanent, b.Classify(verdicts[1]), verdicts[1])
	require.ErrorIs(t, verdicts[2], outbox.ErrHeldBack)
	require.NoError(t, verdicts[3])
	require.Equal(t, []string{"1", "2", "5"}, stored(t, testdb.Open(t, url), "known"))

	subscriber, err := b.Subscriber()
	require.NoError(t, err)
	_, err = subscriber.Subscribe(t.Context(), "unknown")
	require.ErrorContains(t, err, "watermill_offsets_unknown")
}

// A role needs the right to make tables only if there are some to be made.
func TestRights(t *testing.T) {
	url := testdb.URL(t)
	pool := testdb.Open(t, url)
	owner := open(t, with(t, url), "")
	require.NoError(t, publishBatch(t, owner, outgoing("mine", "", "1"), outgoing("closed", "", "1"))[0])
	role, roleURL := testdb.Role(t, url)
	quoted := pgx.Identifier{role}.Sanitize()
	execute(t, pool, `REVOKE CREATE ON SCHEMA public FROM PUBLIC; GRANT USAGE ON SCHEMA public TO `+quoted+`;
		GRANT INSERT ON public.watermill_mine TO `+quoted+`; GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO `+quoted)
	b := open(t, with(t, roleURL), "")
	verdicts := publishBatch(t, b, outgoing("mine", "a", "2"), outgoing("closed", "b", "2"), outgoing("new", "c", "2"))
	require.NoError(t, verdicts[0])
	require.Equal(t, outbox.FailurePermanent, b.Classify(verdicts[1]), verdicts[1])
	require.Equal(t, outbox.FailurePermanent, b.Classify(verdicts[2]), verdicts[2])
	require.Equal(t, []string{"1", "2"}, stored(t, pool, "mine"))
}

func TestABatchEndsWithItsContext(t *testing.T) {
	url := testdb.URL(t)
	pool := testdb.Open(t, url)
	b := open(t, with(t, url), "")
	require.NoError(t, publishBatch(t, b, outgoing("topic", "", "1"))[0])
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = tx.Exec(t.Context(), `LOCK TABLE public.watermill_topic`)
	require.NoError(t, err)

	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	verdicts := b.Publisher().(outbox.BatchPublisher).PublishBatch(ctx, []outbox.Outgoing{outgoing("topic", "", "2"), outgoing("topic", "k", "3")})
	for _, err := range verdicts {
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, outbox.FailureOutage, b.Classify(err))
	}
}

func TestPublishBesideClose(t *testing.T) {
	url := testdb.URL(t)
	b := open(t, with(t, url), "")
	require.NoError(t, publishBatch(t, b, outgoing("topic", "", "1"))[0])
	var group sync.WaitGroup
	began := make(chan struct{}, 8)
	for range 8 {
		group.Go(func() {
			for n := 0; ; n++ {
				err := b.Publisher().Publish("topic", outgoing("", "", "x").Message)
				if n == 0 {
					began <- struct{}{}
				}
				if err != nil {
					require.ErrorIs(t, err, broker.ErrClosed)
					require.Equal(t, outbox.FailureOutage, b.Classify(err))
					return
				}
			}
		})
	}
	for range 8 {
		<-began
	}
	require.NoError(t, b.Close())
	group.Wait()
	require.ErrorIs(t, b.Ping(t.Context()), broker.ErrClosed)
	_, err := b.Subscriber()
	require.ErrorIs(t, err, broker.ErrClosed)
	require.NoError(t, b.Close())
}

func TestEachModeOfPgx(t *testing.T) {
	for _, mode := range []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"} {
		t.Run(mode, func(t *testing.T) {
			url := testdb.URL(t)
			b := open(t, with(t, url, "default_query_exec_mode", mode), "group")
			anything, null := outgoing("topic", "k", "\x00\xff{}'\\"), outgoing("topic", "k", "")
			anything.Message.Metadata.Set("a", `"naïve" → \u0000`)
			null.Message.Payload = nil
			require.Equal(t, []error{nil, nil}, publishBatch(t, b, anything, null))
			messages := subscribe(t, b, "topic")
			got := next(t, messages)
			require.Equal(t, anything.Message.Payload, got.Payload)
			require.Equal(t, anything.Message.Metadata, got.Metadata)
			require.Equal(t, anything.Message.UUID, got.UUID)
			got.Ack()
			got = next(t, messages)
			require.Nil(t, got.Payload)
			got.Ack()
			verdicts := publishBatch(t, b, outgoing("topic", "k", "3"), tooLong("topic", "k"), outgoing("topic", "k", "5"))
			require.NoError(t, verdicts[0])
			require.Equal(t, outbox.FailurePermanent, b.Classify(verdicts[1]), verdicts[1])
			require.Equal(t, []string{"3"}, take(t, messages, 1))
		})
	}
}

func TestMetadataThatAreNoUTF8(t *testing.T) {
	b := open(t, with(t, testdb.URL(t)), "group")
	bad, none := outgoing("topic", "", "1"), outgoing("topic", "", "2")
	bad.Message.Metadata.Set("a", "\xff")
	none.Message.Metadata = nil
	verdicts := publishBatch(t, b, bad, none)
	var invalid *sql.InvalidMetadataError
	require.ErrorAs(t, verdicts[0], &invalid)
	require.Equal(t, outbox.FailurePermanent, b.Classify(verdicts[0]))
	require.NoError(t, verdicts[1])
	got := next(t, subscribe(t, b, "topic"))
	require.NotNil(t, got.Metadata, "a handler may put something into it")
	got.Ack()
}
