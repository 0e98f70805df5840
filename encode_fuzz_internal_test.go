package outbox

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/stretchr/testify/require"
)

// FuzzEncoding decodes with pgx's and Go's decoders what was encoded here. FuzzPublish does it with PostgreSQL's, but a
// thousand times slower.
func FuzzEncoding(f *testing.F) {
	for i, s := range encodedTexts {
		f.Add(s, encodedTexts[len(encodedTexts)-1-i], `\"`+s)
	}
	f.Add("\xff", "\xed\xa0\x80", "a\x00")
	types := pgtype.NewMap()
	f.Fuzz(func(t *testing.T, name, value, other string) {
		metadata := message.Metadata{name: value, other: name}
		value = metadata[name] // both names may be the same
		storable := true
		for name, value := range metadata {
			for _, s := range []string{name, value} {
				fine := utf8.ValidString(s) && !strings.ContainsRune(s, 0)
				require.Equal(t, fine, textProblem(s) == "", "%q", s)
				storable = storable && fine
			}
		}
		size, problem := checkMetadata(metadata)
		require.Equal(t, storable, problem == nil)
		if !storable {
			return
		}
		var decoded message.Metadata
		text := encoded(plainJSON, metadata)
		require.Len(t, text, size)
		require.NoError(t, json.Unmarshal([]byte(text), &decoded))
		require.Equal(t, metadata, decoded)

		var w arrayWriter
		w.text(value)
		w.json(metadata)
		w.text(other)
		var elements []string
		require.NoError(t, types.Scan(pgtype.TextArrayOID, pgtype.TextFormatCode, []byte(w.literal()), &elements))
		require.Len(t, elements, 3)
		require.Equal(t, []string{value, other}, []string{elements[0], elements[2]})
		decoded = nil
		require.NoError(t, json.Unmarshal([]byte(elements[1]), &decoded))
		require.Equal(t, metadata, decoded)
	})
}
