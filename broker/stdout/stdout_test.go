package stdout_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"

	outbox "github.com/watermill-outbox/watermill-outbox"
	"github.com/watermill-outbox/watermill-outbox/broker"
	"github.com/watermill-outbox/watermill-outbox/broker/internal/brokertest"
	"github.com/watermill-outbox/watermill-outbox/broker/stdout"
)

func open(t testing.TB, url string, w io.Writer) broker.Broker {
	t.Helper()
	b, err := broker.NewMux(stdout.Driver{Writer: w}).Open(t.Context(), url, broker.Options{})
	require.NoError(t, err)
	return b
}

func newMessage(uuid, key string, payload []byte) *message.Message {
	msg := message.NewMessage(uuid, payload)
	outbox.SetKey(msg, key)
	return msg
}

func TestAMessageIsALineOfJSON(t *testing.T) {
	var out bytes.Buffer
	b := open(t, "stdout://", &out)
	plain := newMessage("1", "c<1>", []byte("a\nb & <ü>"))
	plain.Metadata.Set("name", "value")
	require.NoError(t, b.Publisher().Publish("orders", plain, newMessage("2", "", []byte{0xff, 0})))
	require.NoError(t, b.Publisher().Publish("orders", newMessage("", "", nil), newMessage("", "", []byte{})))
	want := `{"topic":"orders","key":"c<1>","uuid":"1","metadata":{"name":"value","outbox_key":"c<1>"},"payload":"a\nb & <ü>"}
{"topic":"orders","uuid":"2","payload_base64":"/wA="}
{"topic":"orders"}
{"topic":"orders","payload":""}
`
	require.Equal(t, want, out.String())
}

func TestTextIsALineToo(t *testing.T) {
	var out bytes.Buffer
	b := open(t, "stdout://?format=text", &out)
	require.NoError(t, b.Publisher().Publish("orders", newMessage("1", "c1", []byte("paid für")),
		newMessage("2", "", []byte("\x1b[2J\n")), newMessage("3", "", []byte{0xff})))
	require.Equal(t, "orders [c1] 1 paid für\norders 2 \"\\x1b[2J\\n\"\norders 3 \"\\xff\"\n", out.String())
}

func TestItPrintsToTheStandardOutput(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	old := os.Stdout
	os.Stdout = w
	defer func() { os.Stdout = old }()
	b := open(t, "stdout://", nil)
	require.NoError(t, b.Publisher().Publish("orders", newMessage("1", "", nil)))
	require.NoError(t, w.Close())
	out, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Equal(t, `{"topic":"orders","uuid":"1"}`, strings.TrimSuffix(string(out), "\n")) //nolint:testifylint // to the byte
}

// slowly writes a byte at a time, so that two Writes at once would mix.
type slowly struct {
	mu sync.Mutex
	b  []byte
}

func (s *slowly) Write(p []byte) (int, error) {
	for _, c := range p {
		s.mu.Lock()
		s.b = append(s.b, c)
		s.mu.Unlock()
	}
	return len(p), nil
}

func TestLinesStayWholeWhenManyPublish(t *testing.T) {
	out := &slowly{}
	b := open(t, "stdout://", out)
	var publishing sync.WaitGroup
	for n := range 64 {
		publishing.Go(func() {
			for range 20 {
				if err := b.Publisher().Publish("t", newMessage(fmt.Sprint(n), "k", bytes.Repeat([]byte("x"), 500))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	publishing.Wait()
	lines := strings.Split(strings.TrimSuffix(string(out.b), "\n"), "\n")
	require.Len(t, lines, 64*20)
	for _, line := range lines {
		require.True(t, json.Valid([]byte(line)), line)
	}
}

// failing takes some bytes, then fails, or says nothing, once.
type failing struct {
	bytes.Buffer
	after int
	err   error
	done  bool
}

func (f *failing) Write(p []byte) (int, error) {
	if f.done {
		return f.Buffer.Write(p)
	}
	f.done = true
	n, _ := f.Buffer.Write(p[:f.after])
	return n, f.err
}

func TestAnErrorOfTheOutputIsAnErrorAndTheNextLineIsWhole(t *testing.T) {
	full := errors.New("no space left on device")
	for _, c := range []struct {
		after int
		err   error
		want  error
		torn  string
	}{{0, full, full, ""}, {5, full, full, "{\"top\n"}, {5, nil, io.ErrShortWrite, "{\"top\n"}} {
		out := &failing{after: c.after, err: c.err}
		b := open(t, "stdout://", out)
		err := b.Publisher().Publish("t", newMessage("1", "", nil), newMessage("2", "", nil))
		require.ErrorIs(t, err, c.want)
		require.Equal(t, outbox.FailureOutage, b.Classify(err))
		require.NoError(t, b.Publisher().Publish("t", newMessage("1", "", nil)))
		require.NoError(t, b.Publisher().Publish("t", newMessage("2", "", nil)))
		require.Equal(t, c.torn+"{\"topic\":\"t\",\"uuid\":\"1\"}\n{\"topic\":\"t\",\"uuid\":\"2\"}\n", out.String())
	}
}

func TestWhatItRefuses(t *testing.T) {
	brokertest.RefusesURLs(t, stdout.Driver{}, map[string]string{
		"stdout://host": "host", "stdout:///path": "host", "stdout://?format=xml": "format", "stdout://?forma=text": "forma",
	})
	var out bytes.Buffer
	b := open(t, "stdout://", &out)
	_, err := b.Subscriber()
	require.ErrorIs(t, err, broker.ErrPublishOnly)

	require.NoError(t, b.Ping(t.Context()))
	require.NoError(t, b.Close())
	require.NoError(t, b.Close())
	require.ErrorIs(t, b.Ping(t.Context()), broker.ErrClosed)
	require.ErrorIs(t, b.Publisher().Publish("t", newMessage("1", "", nil)), broker.ErrClosed)
	require.Empty(t, out.String())
}
