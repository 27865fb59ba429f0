package main

import (
	"strconv"
	"strings"

	"charm.land/lipgloss/v2"
	"charm.land/lipgloss/v2/table"
)

// newTable makes a table in the look of all: a line below the headers, texts to the left in the first column, numbers to
// the right in the others.
func newTable(headers ...string) *table.Table {
	left := lipgloss.NewStyle()
	right := lipgloss.NewStyle().Align(lipgloss.Right).PaddingLeft(3)
	return table.New().
		Headers(headers...).
		Border(lipgloss.NormalBorder()).
		BorderTop(false).BorderBottom(false).BorderLeft(false).BorderRight(false).BorderColumn(false).
		StyleFunc(func(_, column int) lipgloss.Style {
			if column == 0 {
				return left
			}
			return right
		})
}

// cells are those of a row of numbers.
func cells(name string, numbers ...int64) []string {
	row := []string{name}
	for _, n := range numbers {
		row = append(row, strconv.FormatInt(n, 10))
	}
	return row
}

// render is a table as text, without spaces at the ends of lines.
func render(t *table.Table) string {
	var lines []string
	for line := range strings.Lines(t.Render()) {
		lines = append(lines, strings.TrimRight(line, " \n"))
	}
	return strings.Join(lines, "\n") + "\n"
}
