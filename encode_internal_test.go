package outbox

import (
	"encoding/json"
	"strings"
	"testing"
	"unsafe"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/require"
)

var encodedTexts = []string{
	"", "plain", `"`, `\`, `\"`, "\x00\x01\x1f", "\x7f\u0080\u2028\u2029\ufffd", "<&>", "{}", "NULL", "a,b", "日本語👩‍🚀", "\t\r\n",
}

func TestMetadataIsPlainJSON(t *testing.T) {
	t.Parallel()
	metadata := message.Metadata{}
	for i, s := range encodedTexts {
		metadata[s] = encodedTexts[len(encodedTexts)-1-i]
		one := message.Metadata{s: s}
		require.Len(t, encoded(plainJSON, one), jsonSize(one))
	}
	text := encoded(plainJSON, metadata)
	require.Len(t, text, jsonSize(metadata))
	var decoded message.Metadata
	require.NoError(t, json.Unmarshal([]byte(text), &decoded))
	require.Equal(t, metadata, decoded)
	require.Contains(t, text, "<&>", "nothing is escaped that need not be")
	require.Contains(t, text, "\u2028")
	for _, none := range []message.Metadata{nil, {}} {
		require.Equal(t, "{}", encoded(plainJSON, none))
		require.Equal(t, len("{}"), jsonSize(none))
	}
}

func encoded(dialect jsonDialect, metadata message.Metadata) string {
	var w strings.Builder
	dialect.write(&w, metadata)
	return w.String()
}

func TestArrayElementsAreQuoted(t *testing.T) {
	t.Parallel()
	var w arrayWriter
	require.Equal(t, "{}", w.literal())
	w = arrayWriter{}
	for _, s := range []string{"", "NULL", `a"b\c`, "{x,y}"} {
		w.text(s)
	}
	w.json(message.Metadata{`k"`: "v\\\n"})
	require.Equal(t, `{"","NULL","a\"b\\c","{x,y}","{\"k\\\"\":\"v\\\\\\u000a\"}"}`, w.literal())
	var numbers arrayWriter
	numbers.integer(-1)
	numbers.float(0.25)
	require.Equal(t, "{-1,0.25}", numbers.literal())
}

func TestPayloadOfOneMessageIsNotCopied(t *testing.T) {
	t.Parallel()
	payload := []byte("large")
	args := insertOneArgs("topic", message.NewMessage("a", payload), row{})
	require.Same(t, unsafe.SliceData(payload), unsafe.SliceData(args[3].([]byte)))
}

func TestPayloadsAreNullOnlyWhereMeant(t *testing.T) {
	t.Parallel()
	none := message.NewMessage("none", nil)
	require.Nil(t, insertOneArgs("topic", none, row{})[3], "NULL is an untyped nil, or drivers disagree")
	require.Equal(t, []byte{}, joinPayloads([]*message.Message{none, none}))
}

func TestChunksEndAtTheirLimit(t *testing.T) {
	t.Parallel()
	rows := []row{{size: chunkBytes}, {size: chunkBytes / 2}, {size: chunkBytes / 2}, {size: 1}, {size: 3 * chunkBytes}, {size: 1}}
	var ends []int
	for from := 0; from < len(rows); from = ends[len(ends)-1] {
		ends = append(ends, chunkEnd(rows, from))
	}
	require.Equal(t, []int{1, 3, 4, 5, 6}, ends)
}

func TestTextProblemsNameThePosition(t *testing.T) {
	t.Parallel()
	for s, problem := range map[string]string{
		"fine\u2028\ufffd\U0010ffff": "", "ab\x00": "NUL byte at position 2", "é\xff": "UTF-8 at position 2", "\xed\xa0\x80": "UTF-8 at position 0",
	} {
		if problem == "" {
			require.Empty(t, textProblem(s))
		} else {
			require.Contains(t, textProblem(s), problem)
		}
	}
}
