package outbox

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/watermill-outbox/watermill-outbox/internal/testdb"
)

func TestWhatTheServerPrintsIsDecodedPlain(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t)
	for given, want := range map[string]map[string]string{
		`{}`:                   {},
		`{"b":"2",  "a" : ""}`: {"a": "", "b": "2"},
		`{"":"{}, \u0041: é"}`: {"": "{}, A: é"},
	} {
		var text string
		require.NoError(t, pool.QueryRow(t.Context(), `SELECT $1::text::jsonb::text`, given).Scan(&text))
		got := map[string]string{}
		require.True(t, decodePlain(text, got), text)
		require.Equal(t, want, got)
	}
}

func TestWhatIsNoObjectOfStringsIsNoMetadata(t *testing.T) {
	t.Parallel()
	for text, problem := range map[string]string{
		``:                      "unexpected end",
		`null`:                  "it is null",
		`[]`:                    "cannot unmarshal array",
		`{"a": "b"`:             "unexpected end",
		`{"a": "b"} `:           "",
		`{"a": "b"}}`:           "invalid character",
		`{"a": "b", }`:          "invalid character",
		`{"a": 1, "b": "c"}`:    "cannot unmarshal number",
		`{"b": "c", "a": null}`: `the value of "a" is null`,
		"{\"a\": \"\n\"}":       "invalid character",
	} {
		err := decodeMetadata(text, map[string]string{})
		if problem == "" {
			require.NoError(t, err, text)
		} else {
			require.ErrorContains(t, err, problem, text)
		}
	}
}

// FuzzDecoding compares with encoding/json. The server sends valid UTF-8 only.
func FuzzDecoding(f *testing.F) {
	for _, text := range []string{`{}`, `{"a": "b"}`, `{"a": "b", "c": "d"}`, `{"a": "b", "a": "c"}`, `{"a":"b"}`, `{"a": "\""}`, `{"a": null}`, `{"a", "b"}`, `null`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) {
			return
		}
		got := map[string]string{}
		err := decodeMetadata(text, got)
		var want map[string]*string
		wantErr := json.Unmarshal([]byte(text), &want)
		for _, value := range want {
			if value == nil {
				require.Error(t, err)
				return
			}
		}
		if wantErr != nil || want == nil {
			require.Error(t, err)
			return
		}
		require.NoError(t, err)
		require.Len(t, got, len(want))
		for key, value := range want {
			require.Equal(t, *value, got[key])
		}
	})
}

func TestAnyJSONIsSomeMetadata(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) // more than encoding/json reads
	for text, want := range map[string]map[string]string{
		`{"a": "b\n", "c": "d"}`:           {"a": "b\n", "c": "d"},
		`{"a": 1.0, "b": null, "c": {}}`:   {"a": "1.0", "b": "null", "c": "{}"},
		`{"a": 123456789012345678901.250}`: {"a": "123456789012345678901.250"},
		`null`:                             {RawMetadata: `null`},
		`"a"`:                              {RawMetadata: `"a"`},
		`[{"a": "b"}]`:                     {RawMetadata: `[{"a": "b"}]`},
		``:                                 {RawMetadata: ``},
		`{"a": "b", "c": ` + deep + `}`:    {RawMetadata: `{"a": "b", "c": ` + deep + `}`},
	} {
		got := map[string]string{}
		decodeAnyMetadata(text, got)
		require.Equal(t, want, got)
	}
}
