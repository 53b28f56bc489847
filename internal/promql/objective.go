// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package promql reads the queries that owners of workloads write for Prometheus, with the parser of Prometheus. A query is bounded in what it costs,
// and is bound to one namespace, because podfit may read the metrics of all.
package promql

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// An Objective is a comparison of an expression with a number.
type Objective struct {
	Operator string // <, <=, > or >=
	Limit    float64
	Span     time.Duration // how far back from the time of the query the expression reads
}

// The bounds of a query.
const (
	maxBytes     = 1000
	maxSelectors = 10
	maxSpan      = time.Hour

	// Lookback is how far a selector without a range reads: the default of servers, which each query must set, because flags can change it.
	Lookback = 5 * time.Minute
)

// functions are those that a query may use. They read nothing but their arguments, and need no more time and memory than these.
var functions = strings.Fields("abs ceil clamp clamp_max clamp_min floor histogram_avg histogram_count histogram_fraction histogram_quantile histogram_sum round scalar sgn sqrt " +
	"vector rate irate increase delta idelta deriv changes resets avg_over_time count_over_time last_over_time max_over_time min_over_time quantile_over_time stddev_over_time " +
	"sum_over_time")

var (
	metricName = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`)
	costly     = regexp.MustCompile(`\{[0-9,]*[0-9]{2}|\\[pPxuU0-7]`) // in a regular expression, or hides that
	language   = parser.NewParser(parser.Options{})
)

// Parse returns the objective of a query such as sum(rate(errors_total[5m])) < 0.1. The error says what is wrong with the query.
func Parse(query string) (Objective, error) {
	o, _, err := parse(query)
	return o, err
}

// Bind returns the expression that a query compares. All of its selectors select only series whose label has a value.
func Bind(query, label, value string) (string, error) {
	_, left, err := parse(query)
	if err != nil {
		return "", err
	}
	bound := labels.MustNewMatcher(labels.MatchEqual, label, value)
	for _, s := range selectors(left) {
		s.LabelMatchers = append(s.LabelMatchers, bound)
	}
	text := left.String()
	again, err := language.ParseExpr(text) // the server reads the text, so it counts what the text means
	if err != nil || slices.ContainsFunc(selectors(again), func(s *parser.VectorSelector) bool {
		return !slices.ContainsFunc(s.LabelMatchers, func(m *labels.Matcher) bool { return m.String() == bound.String() })
	}) {
		return "", errors.New("the query cannot be restricted to the namespace of the VPA")
	}
	return text, nil
}

func parse(query string) (o Objective, left parser.Expr, err error) {
	if len(query) > maxBytes {
		return o, nil, fmt.Errorf("it has %d bytes, at most %d are possible", len(query), maxBytes)
	}
	if part := costly.FindString(query); part != "" { // the parser compiles regular expressions: these could take it a second
		return o, nil, fmt.Errorf("regular expressions must not repeat a part ten times or more, and must not have classes such as \\pL or characters by their number such as \\x41, got %q", part)
	}
	expr, err := language.ParseExpr(query)
	if err != nil {
		return o, nil, err
	}
	comparison, ok := expr.(*parser.BinaryExpr)
	for operator, text := range map[parser.ItemType]string{parser.LSS: "<", parser.LTE: "<=", parser.GTR: ">", parser.GTE: ">="} {
		if ok && comparison.Op == operator && !comparison.ReturnBool {
			o.Operator = text
		}
	}
	if o.Operator == "" || !isNumber(comparison.RHS, &o.Limit) {
		return o, nil, errors.New("it must be a comparison with a number by <, <=, > or >=, such as sum(rate(errors_total[5m])) < 0.1")
	}
	left = comparison.LHS
	all := selectors(left)
	if len(all) == 0 || len(all) > maxSelectors {
		return o, nil, fmt.Errorf("it reads %d metrics, must be from 1 to %d", len(all), maxSelectors)
	}
	return o, left, check(left, Lookback, &o.Span)
}

// isNumber reports whether an expression is a finite number. The parser applies the sign of a number.
func isNumber(e parser.Expr, to *float64) bool {
	switch e := e.(type) {
	case *parser.ParenExpr:
		return isNumber(e.Expr, to)
	case *parser.NumberLiteral:
		*to = e.Val
		return !math.IsNaN(e.Val) && !math.IsInf(e.Val, 0)
	}
	return false
}

// selectors returns all selectors of an expression.
func selectors(e parser.Node) (out []*parser.VectorSelector) {
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		if s, ok := n.(*parser.VectorSelector); ok {
			out = append(out, s)
		}
		return nil
	})
	return out
}

// check returns an error if an expression is not allowed. length is the range of the selectors in it. span rises to how far back it reads.
func check(e parser.Node, length time.Duration, span *time.Duration) error {
	switch e := e.(type) {
	case *parser.VectorSelector:
		reads := length + e.OriginalOffset
		switch {
		case !metricName.MatchString(e.Name):
			return errors.New("each selector must begin with the name of a metric of letters, digits, '_' and ':'")
		case e.Timestamp != nil || e.StartOrEnd != 0:
			return fmt.Errorf("metric %s must not have the modifier @", e.Name)
		case e.OriginalOffset < 0, max(length, e.OriginalOffset, reads) > maxSpan: // their sum may be too large for a number
			return fmt.Errorf("metric %s is read over %v with an offset of %v, both must be at least 0 and together at most %v", e.Name, length, e.OriginalOffset, maxSpan)
		}
		*span = max(*span, reads)
	case *parser.MatrixSelector:
		length = e.Range
	case *parser.Call:
		if !slices.Contains(functions, e.Func.Name) {
			return fmt.Errorf("function %s is not possible", e.Func.Name)
		}
	case *parser.SubqueryExpr:
		return errors.New("a subquery is not possible")
	}
	for child := range parser.ChildrenIter(e) {
		if err := check(child, length, span); err != nil {
			return err
		}
	}
	return nil
}
