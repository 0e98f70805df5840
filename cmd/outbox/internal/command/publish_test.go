package command

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

// stored gives what is in the outbox, in order: topic, key and payload.
func stored(t testing.TB, pool *pgxpool.Pool) (list []string) {
	t.Helper()
	rows, err := pool.Query(t.Context(), `SELECT topic, key, payload FROM public.outbox ORDER BY id`)
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var topic, key string
		var payload []byte
		require.NoError(t, rows.Scan(&topic, &key, &payload))
		list = append(list, topic+" "+key+" "+string(payload))
	}
	require.NoError(t, rows.Err())
	return list
}

func TestPublish(t *testing.T) {
	t.Parallel()
	url, pool := database(t)
	do := func(input string, code int, args ...string) *call {
		return newCall(append([]string{"publish", "--database", url}, args...)...).stdin(input).ends(t, code)
	}
	c := do("one\n\nthree", ExitOK, "--topic", "lines", "--key", "k")
	require.Equal(t, "3 messages written.\n", c.stderr.String())
	do("all\nof it\n", ExitOK, "--topic", "one", "--one", "--metadata", "a=b")
	require.JSONEq(t, `{"published": 4}`, do(`
{"topic": "t1", "key": "k1", "uuid": "u1", "payload": "text \u00e9"}
{"topic": "t2", "payload": {"a": [1]}}
{"payload_base64": "/wA="}
{"metadata": {"outbox_key": "k2"}, "payload": 3}
`, ExitOK, "--json-lines", "--topic", "fallback", "--key", "k", "--json").stdout.String())
	require.Equal(t, []string{
		"lines k one", "lines k ", "lines k three", "one  all\nof it\n",
		"t1 k1 text é", `t2 k {"a": [1]}`, "fallback k \xff\x00", "fallback k2 3",
	}, stored(t, pool))
	require.Equal(t, 1, count(t, pool, "public.outbox WHERE uuid = 'u1'"))
	require.Equal(t, 1, count(t, pool, `public.outbox WHERE metadata::text LIKE '%"a"%"b"%'`))
}

func TestPublishKeepsNullApartFromEmpty(t *testing.T) {
	t.Parallel()
	url, pool := database(t)
	input := `{"topic": "t", "payload": null}` + "\n" + `{"topic": "t", "payload": ""}` + "\n" + `{"id": 7, "topic": "t", "payload": "x", "tail": true}`
	newCall("publish", "--database", url, "--json-lines").stdin(input).ends(t, ExitOK)
	require.Equal(t, 1, count(t, pool, "public.outbox WHERE payload IS NULL"))
	require.Equal(t, 1, count(t, pool, "public.outbox WHERE payload = ''"))
	var m messageJSON
	require.NoError(t, m.setPayload(nil))
	payload, err := m.payload()
	require.NoError(t, err)
	require.Nil(t, payload)
}

func TestPublishTellsTheLineThatIsRefused(t *testing.T) {
	t.Parallel()
	url, pool := database(t)
	for name, test := range map[string]struct {
		line, want string
	}{
		"a topic that can't be stored": {`{"topic": "a\u0000b", "payload": 1}`, "line 3: topic: "},
		"a uuid that can't be stored":  {`{"topic": "t", "uuid": "\u0000", "payload": 1}`, "line 3: uuid: "},
		"no payload":                   {`{"topic": "t"}`, "line 3: payload: it is missing"},
		"a misspelt field":             {`{"topic": "t", "paylod": 1}`, `line 3: it is no message as JSON: json: unknown field "paylod"`},
		"a field in other letters":     {`{"topic": "t", "payload": 1, "Topic": "u"}`, `line 3: it is no message as JSON: unknown field "Topic"; did you mean "topic"?`},
		"two payloads":                 {`{"topic": "t", "payload": 1, "payload_base64": "eA=="}`, "line 3: payload: there is payload_base64 as well"},
		"two messages":                 {`{"topic": "t", "payload": 1} {}`, "line 3: it is no message as JSON"},
		"no JSON":                      {`{"payload"`, "line 3: it is no message as JSON"},
		"no topic":                     {`{"payload": 1}`, "line 3: topic: is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			before := count(t, pool, "public.outbox")
			good := `{"topic": "t", "payload": 1}`
			input := strings.Join([]string{good, good, test.line, good}, "\n")
			c := newCall("publish", "--database", url, "--json-lines").stdin(input).ends(t, ExitFailure)
			require.Contains(t, c.stderr.String(), test.want)
			require.Contains(t, c.stderr.String(), "(messages written before that: 2)")
			require.Equal(t, 2, count(t, pool, "public.outbox")-before)
		})
	}
	newCall("publish", "--database", url).ends(t, ExitUsage)
	newCall("publish", "--database", url, "--one", "--json-lines").ends(t, ExitUsage)
	newCall("publish", "--database", url, "--topic", "t", "--key", "a", "--metadata", "outbox_key=b").ends(t, ExitUsage)
}

// What a pipe gives slowly is written before the pipe ends.
func TestPublishDoesNotWaitForTheEnd(t *testing.T) {
	t.Parallel()
	url, pool := database(t)
	reader, writer := io.Pipe()
	c := newCall("publish", "--database", url, "--topic", "t")
	c.Stdin = reader
	stop := c.starts(t)
	_, err := io.WriteString(writer, "one\n")
	require.NoError(t, err)
	eventually(t, "it is written", func() bool { return count(t, pool, "public.outbox") == 1 })
	_, err = io.WriteString(writer, "two\n")
	require.NoError(t, err)
	require.NoError(t, writer.Close())
	eventually(t, "the rest is written", func() bool { return count(t, pool, "public.outbox") == 2 })
	eventually(t, "it has ended by itself", func() bool { return strings.Contains(c.stderr.String(), "2 messages written.") })
	require.Equal(t, ExitOK, stop())
}

func TestPublishInterrupted(t *testing.T) {
	t.Parallel()
	url, _ := database(t)
	reader, writer := io.Pipe()
	c := newCall("publish", "--database", url, "--topic", "t")
	c.Stdin = reader
	stop := c.starts(t)
	_, err := io.WriteString(writer, "one\n")
	require.NoError(t, err)
	require.Equal(t, ExitFailure, stop())
	require.Contains(t, c.stderr.String(), "interrupted")
}

func TestManyMessagesGoInBatches(t *testing.T) {
	t.Parallel()
	url, pool := database(t)
	var input strings.Builder
	for i := range 3 * publishBatch {
		fmt.Fprintln(&input, i)
	}
	c := newCall("publish", "--database", url, "--topic", "t").stdin(input.String())
	c.Live = true
	c.ends(t, ExitOK)
	require.Contains(t, c.stderr.String(), "1,500 messages written.\n")
	list := stored(t, pool)
	require.Len(t, list, 3*publishBatch)
	require.Equal(t, "t  1499", list[len(list)-1])
	transactions := 0
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(DISTINCT xmin::text) FROM public.outbox").Scan(&transactions))
	require.Less(t, transactions, 100)
	require.Greater(t, transactions, 1)
}
