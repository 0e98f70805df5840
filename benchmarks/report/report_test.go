package report_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/watermill-outbox/watermill-outbox/benchmarks/report"
)

var results = []report.Result{
	report.New("limit", "1,000 keys", "messages/s", 123456.789, 200000, "claim & delete"),
	report.New("limit", "µs", "x", 0, 0, "nothing"),
}

func TestJSONIsOneObjectALine(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, report.JSON(&out, results))
	lines := strings.Split(out.String(), "\n")
	require.Len(t, lines, 3)
	require.JSONEq(t, `{"scenario":"limit","metric":"1,000 keys","unit":"messages/s",
		"ours":123500,"rival":200000,"rival_name":"claim & delete","ratio":0.6173}`, lines[0])
	require.JSONEq(t, `{"scenario":"limit","metric":"µs","unit":"x","ours":0,"rival":0,"rival_name":"nothing","ratio":null}`, lines[1])
	require.Empty(t, lines[2])
}

func TestTableAlignsFiguresToTheRight(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, report.Table(&out, "limit", results))
	require.Equal(t, strings.Join([]string{
		"limit",
		"  measured       ours    rival  unit         ratio  rival's name",
		"  1,000 keys  123,500  200,000  messages/s  0.62 x  claim & delete",
		"  µs                0        0  x                -  nothing",
		"", "",
	}, "\n"), out.String())
}

func TestFiguresHaveNoMoreDigitsThanTheyDeserve(t *testing.T) {
	for value, want := range map[float64]string{
		0: "0", 7: "7", 1234567: "1,234,567", 999.6: "1,000", 45.67: "45.7", 1.234: "1.23", 0.01234: "0.0123", -1500: "-1,500",
	} {
		require.Equal(t, want, report.Figure(value))
	}
}

func TestAFullDiskIsAnError(t *testing.T) {
	require.Error(t, report.JSON(full{}, results))
	require.Error(t, report.Table(full{}, "limit", results))
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }
