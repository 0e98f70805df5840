package command

import (
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// newTable makes one without frames; columns whose heading begins with > are numbers.
func newTable(headings ...string) table.Writer {
	t := table.NewWriter()
	style := table.StyleDefault
	style.Options = table.OptionsNoBordersAndSeparators
	style.Format.Header = text.FormatDefault
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	t.SetStyle(style)
	t.SuppressTrailingSpaces()
	row := make(table.Row, len(headings))
	var columns []table.ColumnConfig
	for i, heading := range headings {
		name, number := strings.CutPrefix(heading, ">")
		if row[i] = name; number {
			columns = append(columns, table.ColumnConfig{Number: i + 1, Align: text.AlignRight, AlignHeader: text.AlignRight})
		}
	}
	t.SetColumnConfigs(columns)
	t.AppendHeader(row)
	return t
}

// cell makes a text fit into a cell: one line, nothing that a terminal would obey.
func cell(s string, limit int) string {
	s = strings.Join(strings.Fields(printable(s)), " ")
	if runes := []rune(s); limit > 0 && len(runes) > limit {
		s = string(runes[:limit-1]) + "…"
	}
	return s
}

// printable escapes what a terminal would obey, or can't show.
func printable(s string) string {
	var b strings.Builder
	for _, r := range s {
		if unicode.IsPrint(r) || r == '\n' || r == '\t' {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
	}
	return b.String()
}

// age is a time as people say it.
func age(d time.Duration) string {
	switch {
	case d < time.Minute:
		return d.Round(time.Second).String()
	case d < 48*time.Hour:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	default:
		return strconv.Itoa(int(d.Hours()/24)) + "d"
	}
}
