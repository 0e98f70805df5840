package kafka_test

import (
	"bytes"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	outbox "github.com/watermill-outbox/watermill-outbox"
)

// refusing gives a Kafka that refuses each batch in which a payload begins with bad. It looks at what it is sent, and says
// how often it refused.
func refusing(t testing.TB) (addr string, refusals *atomic.Int32) {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	require.NoError(t, err)
	t.Cleanup(cluster.Close)
	refusals = new(atomic.Int32)
	cluster.ControlKey(int16(kmsg.Produce), func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		produce := request.(*kmsg.ProduceRequest)
		bad := false
		for _, topic := range produce.Topics {
			for _, partition := range topic.Partitions {
				bad = bad || bytes.Contains(partition.Records, []byte("bad"))
			}
		}
		if !bad {
			return nil, nil, false
		}
		refusals.Add(1)
		response := produce.ResponseKind().(*kmsg.ProduceResponse)
		for _, topic := range produce.Topics {
			answer := kmsg.NewProduceResponseTopic()
			answer.Topic, answer.TopicID = topic.Topic, topic.TopicID
			for _, partition := range topic.Partitions {
				p := kmsg.NewProduceResponseTopicPartition()
				p.Partition, p.ErrorCode = partition.Partition, kerr.InvalidRecord.Code
				answer.Partitions = append(answer.Partitions, p)
			}
			response.Topics = append(response.Topics, answer)
		}
		return response, nil, true
	})
	return cluster.ListenAddrs()[0], refusals
}

// The interleaving that would break the order: the broker refuses a batch in which message 7 of a key is, while the next
// batches of the same key are on their way, or while the client is still being given them.
func TestNothingOvertakesWhatTheBrokerRefuses(t *testing.T) {
	small := "1500" // many batches
	for round := range 5 {
		addr, refusals := refusing(t)
		topic := newTopic(t, addr, map[string]*string{"max.message.bytes": &small})
		b := open(t, addr, "compression=none", "")
		var batch []outbox.Outgoing
		for n := range 3000 {
			payload := fmt.Sprintf("%04d%s", n, strings.Repeat(".", 100))
			if n == 7 {
				payload = "bad"
			}
			batch = append(batch, outgoing(topic, "hot", payload))
			if n < 200 {
				batch = append(batch, outgoing(topic, fmt.Sprint("other ", n%10), fmt.Sprint(n)))
			}
		}
		n := -1
		for i, err := range publishBatch(t, b, batch...) {
			if batch[i].Key == "hot" {
				n++
			}
			switch {
			case batch[i].Key != "hot" || n < 7:
				require.NoError(t, err)
			case n == 7:
				require.ErrorIs(t, err, kerr.InvalidRecord)
				require.Equal(t, outbox.FailurePermanent, b.Classify(err))
			default:
				require.ErrorIs(t, err, outbox.ErrHeldBack)
			}
		}
		require.GreaterOrEqual(t, refusals.Load(), int32(2), "once in a batch, once alone")
		records := read(t, addr, topic)
		hot := payloads(records, "hot")
		require.Len(t, hot, 7, "round %d: none of those behind it is there, none before it twice", round)
		for n, payload := range hot {
			require.Equal(t, fmt.Sprintf("%04d", n), payload[:4])
		}
		for key := range 10 {
			others := payloads(records, fmt.Sprint("other ", key))
			require.Len(t, others, 20)
			for n, payload := range others {
				require.Equal(t, fmt.Sprint(key+10*n), payload)
			}
		}
	}
}

// One Publish among others that share its request.
func TestAPublishIsNotBlamedForItsNeighbours(t *testing.T) {
	addr, _ := refusing(t)
	topic := newTopic(t, addr, nil)
	b := open(t, addr, "compression=none", "")
	errs := make(chan error, 100)
	for n := range 100 {
		go func() {
			payload := "good"
			if n%10 == 0 {
				payload = "bad"
			}
			err := b.Publisher().Publish(topic, message.NewMessage(fmt.Sprint(n), []byte(payload)))
			if (payload == "bad") != (err != nil) {
				err = fmt.Errorf("%s: %w", payload, err)
			} else {
				err = nil
			}
			errs <- err
		}()
	}
	for range 100 {
		require.NoError(t, <-errs)
	}
	require.Len(t, read(t, addr, topic), 90)
}
