// Package report prints what was measured, for a reader or for a program.
package report

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Result is one comparison. Ratio is ours divided by the rival's, null when the rival's figure is 0.
type Result struct {
	Scenario  string   `json:"scenario"`
	Metric    string   `json:"metric"`
	Unit      string   `json:"unit"`
	Ours      float64  `json:"ours"`
	Rival     float64  `json:"rival"`
	RivalName string   `json:"rival_name"`
	Ratio     *float64 `json:"ratio"`
}

// New makes a result; its figures keep four significant digits.
func New(scenario, metric, unit string, ours, rival float64, rivalName string) Result {
	r := Result{Scenario: scenario, Metric: metric, Unit: unit, Ours: round(ours), Rival: round(rival), RivalName: rivalName}
	if rival != 0 {
		ratio := round(ours / rival)
		r.Ratio = &ratio
	}
	return r
}

func round(v float64) float64 {
	if v == 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return 0
	}
	scale := math.Pow(10, 3-math.Floor(math.Log10(math.Abs(v))))
	return math.Round(v*scale) / scale
}

// JSON writes one object a line.
func JSON(w io.Writer, results []Result) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	for _, r := range results {
		if err := encoder.Encode(r); err != nil {
			return fmt.Errorf("write results: %w", err)
		}
	}
	return nil
}

// Table writes the results of one scenario under a heading: figures to the right, words to the left.
func Table(w io.Writer, heading string, results []Result) error {
	rows := [][]string{{"measured", "ours", "rival", "unit", "ratio", "rival's name"}}
	for _, r := range results {
		ratio := "-"
		if r.Ratio != nil {
			ratio = Figure(*r.Ratio) + " x"
		}
		rows = append(rows, []string{r.Metric, Figure(r.Ours), Figure(r.Rival), r.Unit, ratio, r.RivalName})
	}
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	b.WriteString(heading + "\n")
	for _, row := range rows {
		fmt.Fprintf(&b, "  %-*s  %*s  %*s  %-*s  %*s  %s\n", widths[0], row[0], widths[1], row[1], widths[2], row[2],
			widths[3], row[3], widths[4], row[4], row[5])
	}
	if _, err := fmt.Fprintln(w, b.String()); err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	return nil
}

// Figure writes a number for a reader: thousands apart, and no more digits than it deserves.
func Figure(v float64) string {
	if v < 0 {
		return "-" + Figure(-v)
	}
	if v >= 100 || v == math.Trunc(v) {
		return thousands(strconv.FormatFloat(math.Round(v), 'f', 0, 64))
	}
	decimals := 1
	if v < 10 {
		decimals = 2
	}
	if v < 0.1 {
		decimals = 4
	}
	return strconv.FormatFloat(v, 'f', decimals, 64)
}

func thousands(digits string) string {
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}
