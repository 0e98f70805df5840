package sql_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker"
	"github.com/watermill-outbox/watermill-outbox/broker/sql"
	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

func TestABatchIsOneTransactionInItsOrder(t *testing.T) {
	url := newDatabase(t)
	b := open(t, url, "")
	var batch []outbox.Outgoing
	var want []string
	for n := range 1000 {
		want = append(want, fmt.Sprint(n))
		batch = append(batch, outgoing("t", fmt.Sprint(n%3), fmt.Sprint(n)))
		if n%10 == 0 {
			batch = append(batch, outgoing("u", "", "x"))
		}
	}
	for _, err := range publishBatch(t, b, batch...) {
		require.NoError(t, err)
	}
	require.Equal(t, want, column[string](t, url, payloadsOfT))
	require.Equal(t, []int{1}, column[int](t, url,
		`SELECT count(DISTINCT transaction_id) FROM (SELECT transaction_id FROM watermill_t UNION ALL SELECT transaction_id FROM watermill_u) x`))
}

func TestTheOnesAtFaultAreFoundAndOnlyTheirKeysWait(t *testing.T) {
	url := newDatabase(t)
	b := open(t, url, "")
	var batch []outbox.Outgoing
	want := map[string]string{} // by payload: the key of what has to be there
	for n := range 60 {
		for key := range 4 {
			out := outgoing("t", fmt.Sprint("key ", key), fmt.Sprintf("%d of %d", n, key))
			switch {
			case key == 0 && n == 30:
				out.Message.UUID = strings.Repeat("x", 37)
			case key == 1 && n == 0:
				out.Message.UUID = "\xff"
			case key == 2 && n == 59:
				out.Topic = "no topic"
			case key == 3, key == 2, key == 0 && n < 30:
				want[string(out.Message.Payload)] = out.Key
			}
			batch = append(batch, out)
		}
		batch = append(batch, outgoing("t", "", fmt.Sprint("unkeyed ", n)))
		want[fmt.Sprint("unkeyed ", n)] = ""
	}
	bad := map[string]bool{}
	for i, err := range publishBatch(t, b, batch...) {
		key := batch[i].Key
		_, wanted := want[string(batch[i].Message.Payload)]
		switch {
		case wanted:
			require.NoError(t, err)
		case bad[key]:
			require.ErrorIs(t, err, outbox.ErrHeldBack)
		default:
			require.NotErrorIs(t, err, outbox.ErrHeldBack)
			require.Equal(t, outbox.FailurePermanent, b.Classify(err), "%v", err)
			bad[key] = true
		}
	}
	require.Len(t, bad, 3)
	there := column[string](t, url, payloadsOfT)
	require.ElementsMatch(t, slices.Collect(maps.Keys(want)), there, "each once")
	for key := range 4 {
		n := 0
		for _, payload := range there {
			if strings.HasSuffix(payload, fmt.Sprint(" of ", key)) {
				require.Equal(t, fmt.Sprintf("%d of %d", n, key), payload)
				n++
			}
		}
	}
}

func TestATopicThatIsRefusedHoldsBackWhatIsBehindItAndWaitsForWhatIsBeforeIt(t *testing.T) {
	url := newDatabase(t)
	b := open(t, url, "")
	before, behind := outgoing("t", "a", "bad"), outgoing("t", "b", "behind")
	before.Message.UUID = "\xff"
	verdicts := publishBatch(t, b, before, outgoing("no topic", "a", "1"), outgoing("t", "b", "2"), outgoing("no topic", "b", "3"), behind,
		outgoing("no topic", "", "4"), outgoing("t", "", "5"))
	require.ErrorContains(t, verdicts[0], "22021")
	require.ErrorIs(t, verdicts[1], outbox.ErrHeldBack)
	require.NoError(t, verdicts[2])
	require.ErrorContains(t, verdicts[3], "no topic")
	require.ErrorIs(t, verdicts[4], outbox.ErrHeldBack)
	require.ErrorContains(t, verdicts[5], "no topic")
	require.NoError(t, verdicts[6])
	require.Equal(t, []string{"2", "5"}, column[string](t, url, payloadsOfT))
}

func TestCloseAndTheContextEndWhatWaitsForTheServer(t *testing.T) {
	url := newDatabase(t)
	b := open(t, url, "")
	publish(t, b, "t", "1")
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(context.WithoutCancel(t.Context()))) }()
	_, err = conn.Exec(t.Context(), `BEGIN; LOCK TABLE watermill_t`)
	require.NoError(t, err)

	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	err = b.Publisher().(outbox.BatchPublisher).PublishBatch(ctx, []outbox.Outgoing{outgoing("t", "", "2")})[0]
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, outbox.FailureOutage, b.Classify(err))

	ended := make(chan error)
	go func() { ended <- publishBatch(t, b, outgoing("t", "", "3"))[0] }()
	require.Eventually(t, func() bool {
		return column[int](t, url, `SELECT count(*) FROM pg_locks WHERE NOT granted`)[0] > 0
	}, patience, 10*time.Millisecond)
	require.NoError(t, b.Close())
	require.ErrorIs(t, <-ended, broker.ErrClosed)
}

func TestTopicsThatCanNotBeTables(t *testing.T) {
	b := open(t, newDatabase(t), "g")
	s, err := b.Subscriber()
	require.NoError(t, err)
	for topic, reason := range map[string]string{
		"":                      "letters, digits",
		"a b":                   "letters, digits",
		`a"b`:                   "letters, digits",
		"ä":                     "letters, digits",
		strings.Repeat("x", 46): "46 bytes",
		"offsets_a":             "must not begin",
	} {
		err := b.Publisher().Publish(topic, outgoing("", "", "x").Message)
		var wrong *sql.TopicError
		require.ErrorAs(t, err, &wrong)
		require.Equal(t, topic, wrong.Topic)
		require.Contains(t, wrong.Reason, reason)
		require.Equal(t, outbox.FailurePermanent, b.Classify(err))
		_, err = s.Subscribe(t.Context(), topic)
		require.ErrorAs(t, err, &wrong)
	}
	for _, topic := range []string{strings.Repeat("x", 45), "a-b$c:d.e_F9", strings.Repeat("x", 44)} {
		publish(t, b, topic, topic)
		require.Equal(t, []string{topic}, read(t, subscribe(t, b, topic), 1))
	}
}

func TestWithoutAutoInitializeAnUnknownTopicIsRefusedForGood(t *testing.T) {
	url := newDatabase(t)
	publish(t, open(t, url, ""), "t", "1")
	b := open(t, with(url, "auto_initialize=false"), "g")
	verdicts := publishBatch(t, b, outgoing("t", "k", "2"), outgoing("u", "k", "3"), outgoing("t", "k", "4"), outgoing("t", "", "5"), outgoing("v", "", "6"))
	require.NoError(t, verdicts[0])
	require.ErrorIs(t, verdicts[2], outbox.ErrHeldBack)
	require.NoError(t, verdicts[3])
	for _, err := range []error{verdicts[1], verdicts[4]} {
		var unknown *sql.UnknownTopicError
		require.ErrorAs(t, err, &unknown)
		require.Equal(t, outbox.FailurePermanent, b.Classify(err))
	}
	require.Equal(t, []string{"1", "2", "5"}, column[string](t, url, payloadsOfT))
	s, err := b.Subscriber()
	require.NoError(t, err)
	_, err = s.Subscribe(t.Context(), "v")
	require.ErrorContains(t, err, "watermill_offsets_v")
}

func TestTablesAreCreatedOnceByManyAndAgainWhenTheyAreGone(t *testing.T) {
	url := newDatabase(t)
	var creating sync.WaitGroup
	for range 8 {
		b := open(t, url, "")
		creating.Go(func() {
			if err := b.Publisher().Publish("t", outgoing("", "", "x").Message); err != nil {
				t.Error(err)
			}
		})
	}
	creating.Wait()
	require.Len(t, column[string](t, url, payloadsOfT), 8)
	b := open(t, url, "")
	publish(t, b, "t", "before")
	execute(t, url, `DROP TABLE watermill_t`)
	publish(t, b, "t", "after")
	require.Equal(t, []string{"after"}, column[string](t, url, payloadsOfT))
}

func TestARoleThatMayOnlyWriteNeedsNoRightToCreate(t *testing.T) {
	url := newDatabase(t)
	publish(t, open(t, url, ""), "t", "1")
	publish(t, open(t, url, ""), "closed", "1")
	role, roleURL := testdb.Role(t, url)
	execute(t, url, fmt.Sprintf(`REVOKE CREATE ON SCHEMA public FROM PUBLIC; GRANT INSERT, SELECT ON watermill_t TO %[1]s;
		GRANT USAGE ON SEQUENCE watermill_t_offset_seq TO %[1]s; GRANT INSERT, SELECT, UPDATE ON watermill_offsets_t TO %[1]s`, pgx.Identifier{role}.Sanitize()))
	b := open(t, roleURL, "g")
	verdicts := publishBatch(t, b, outgoing("t", "", "2"), outgoing("closed", "", "3"), outgoing("new", "", "4"))
	require.NoError(t, verdicts[0])
	for _, err := range verdicts[1:] {
		require.ErrorContains(t, err, "42501")
		require.Equal(t, outbox.FailurePermanent, b.Classify(err))
	}
	require.Equal(t, []string{"1", "2"}, read(t, subscribe(t, b, "t"), 2))
}

func TestPublishRacesClose(t *testing.T) {
	url := newDatabase(t)
	for range 5 {
		b := open(t, url, "")
		publish(t, b, "t", "x")
		var publishing sync.WaitGroup
		for range 8 {
			publishing.Go(func() {
				for {
					if err := b.Publisher().Publish("t", outgoing("", "", "x").Message); err != nil {
						if b.Classify(err) != outbox.FailureOutage {
							t.Error(err)
						}
						return
					}
				}
			})
		}
		require.NoError(t, b.Close())
		publishing.Wait()
		require.ErrorIs(t, b.Publisher().Publish("t", message.NewMessage("1", nil)), broker.ErrClosed)
		require.ErrorIs(t, b.Ping(t.Context()), broker.ErrClosed)
		_, err := b.Subscriber()
		require.ErrorIs(t, err, broker.ErrClosed)
	}
}
