package measure_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	"github.com/watermill-outbox/watermill-outbox/benchmarks/measure"
)

func messagesOf(load measure.Load) []*message.Message {
	messages := make([]*message.Message, load.Count)
	for i := range messages {
		messages[i] = load.Message(context.Background(), i)
	}
	return messages
}

func tallyOf(load measure.Load, delivered []*message.Message) measure.Tally {
	ledger := measure.NewLedger(load.Count, load.Keys)
	for _, m := range delivered {
		ledger.Record(m)
	}
	return ledger.Seen().Compare(load.Expected(context.Background()))
}

var load = measure.Load{Count: 40, Keys: 4, Size: 100}

func TestALoadThatCameOnceAndInOrderIsRight(t *testing.T) {
	require.NoError(t, tallyOf(load, messagesOf(load)).Err())
}

func TestKeysMayMixAsLongAsEachIsInOrder(t *testing.T) {
	messages := messagesOf(load)
	slices.SortStableFunc(messages, func(a, b *message.Message) int {
		return slices.Compare([]byte(a.Metadata.Get(measure.KeyMetadata)), []byte(b.Metadata.Get(measure.KeyMetadata)))
	})
	require.NoError(t, tallyOf(load, messages).Err())
}

func TestUnkeyedMessagesHaveNoOrder(t *testing.T) {
	unkeyed := measure.Load{Count: 40, Size: 100}
	messages := messagesOf(unkeyed)
	slices.Reverse(messages)
	require.NoError(t, tallyOf(unkeyed, messages).Err())
	require.Empty(t, messages[0].Metadata.Get(measure.KeyMetadata))
}

func TestALostMessageIsFound(t *testing.T) {
	tally := tallyOf(load, messagesOf(load)[1:])
	require.EqualValues(t, 1, tally.Lost)
	require.Zero(t, tally.OutOfOrder)
	require.ErrorContains(t, tally.Err(), "1 messages lost")
}

func TestAMessageSentTwiceIsFound(t *testing.T) {
	messages := messagesOf(load)
	tally := tallyOf(load, append(messages, messages[3]))
	require.Equal(t, measure.Tally{Duplicates: 1, SameContent: true}, tally)
	require.ErrorContains(t, tally.Err(), "sent twice")
}

func TestAnOvertakenMessageIsFound(t *testing.T) {
	messages := messagesOf(load)
	messages[1], messages[5] = messages[5], messages[1] // the same key
	require.Equal(t, measure.Tally{OutOfOrder: 1, SameContent: true}, tallyOf(load, messages))
}

func TestAChangedPayloadIsFound(t *testing.T) {
	messages := messagesOf(load)
	messages[7].Payload[90] ^= 1
	require.ErrorContains(t, tallyOf(load, messages).Err(), "not those that were written")
}

func TestExchangedPayloadsAreFound(t *testing.T) {
	messages := messagesOf(load)
	messages[6].Payload, messages[7].Payload = messages[7].Payload, messages[6].Payload
	require.EqualValues(t, 2, tallyOf(load, messages).Foreign)
}

func TestALostKeyIsFound(t *testing.T) {
	messages := messagesOf(load)
	messages[7].Metadata.Set(measure.KeyMetadata, "")
	require.Error(t, tallyOf(load, messages).Err())
}

func TestForeignMessagesAreFound(t *testing.T) {
	beyond := measure.Load{Count: 41, Keys: 4, Size: 100}
	for _, m := range []*message.Message{
		message.NewMessage("a", nil),
		message.NewMessage(messagesOf(load)[0].UUID, make([]byte, 100)),
		message.NewMessage("00000000-0000-4000-8000-zzzzzzzzzzzz", make([]byte, 100)),
		messagesOf(beyond)[40],
		measure.NewMessage(context.Background(), 1, 99, 1, 100),
	} {
		require.EqualValues(t, 1, tallyOf(load, []*message.Message{m}).Foreign)
	}
}

func TestReachedTellsWhenAllHaveCome(t *testing.T) {
	ledger := measure.NewLedger(load.Count, load.Keys).WithTimes()
	ledger.Restart()
	broker := measure.Broker{Ledger: ledger}
	reached := ledger.Reached(load.Count)
	messages := messagesOf(load)
	require.NoError(t, broker.Publish("", messages[:39]...))
	select {
	case <-reached:
		t.Fatal("one is missing")
	default:
	}
	require.Zero(t, ledger.Took())
	require.NoError(t, broker.Publish("", messages[39], messages[39]))
	<-reached
	require.Positive(t, ledger.Took())
	require.EqualValues(t, 40, ledger.Delivered())
	at, came := ledger.Arrival(39)
	require.True(t, came)
	require.LessOrEqual(t, at, ledger.Latest())
	require.NoError(t, broker.Close())
}

func TestReachedLateIsClosedAtOnce(t *testing.T) {
	ledger := measure.NewLedger(load.Count, load.Keys)
	for _, m := range messagesOf(load) {
		ledger.Record(m)
	}
	<-ledger.Reached(load.Count)
	require.Positive(t, ledger.Took())
}

func TestManyPublishersAtOnce(t *testing.T) {
	load := measure.Load{Count: 4000, Keys: 8, Size: 64}
	ledger, counter := measure.NewLedger(load.Count, load.Keys), measure.NewCounter(load.Count)
	var group sync.WaitGroup
	for key := range load.Keys {
		group.Go(func() {
			for i := key; i < load.Count; i += load.Keys {
				m := load.Message(context.Background(), i)
				_ = measure.Broker{Ledger: ledger}.Publish("", m)
				_ = counter.Publish("", m)
			}
		})
	}
	group.Wait()
	<-ledger.Reached(load.Count)
	<-counter.Reached()
	require.EqualValues(t, load.Count, counter.Count())
	require.NoError(t, counter.Close())
	require.NoError(t, ledger.Seen().Compare(load.Expected(context.Background())).Err())
}

func TestExpectedOfSeveralWritersAddsUp(t *testing.T) {
	var first, second measure.Expected
	for i, m := range messagesOf(load) {
		if i%2 == 0 {
			first.Add(m)
		} else {
			second.Add(m)
		}
	}
	first.Join(second)
	require.Equal(t, load.Expected(context.Background()), first)
}

func TestPayloadsHaveTheSizeThatWasAskedFor(t *testing.T) {
	for _, size := range []int{0, 32, 33, 200, 70_000, 1 << 20} {
		m := measure.NewMessage(context.Background(), 1, 2, 3, size)
		require.Len(t, m.Payload, max(32, size))
		require.Equal(t, "k2", m.Metadata.Get(measure.KeyMetadata))
	}
}
