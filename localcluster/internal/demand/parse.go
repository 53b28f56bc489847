// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package demand

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Parse parses an expression of the language in the package comment.
func Parse(text string) (Profile, error) {
	p := parser{text: text}
	profile, err := p.sum()
	if err == nil && p.rest() != "" {
		err = fmt.Errorf("unexpected %q", p.rest())
	}
	if err != nil {
		return nil, fmt.Errorf("demand %q: %w", text, err)
	}
	return profile, nil
}

// A call holds the arguments of a function call as text, until the function reads them.
type call struct {
	plain []string
	named map[string]string
	err   error
}

// build returns the profile for a function call. The functions read their arguments in the order of positional arguments.
func build(function string, c *call) (Profile, error) {
	var p Profile
	switch function {
	case "sine":
		p = sine{c.value("low"), c.value("high"), c.period("period", ""), c.duration("phase", "0s")}
	case "ramp":
		p = ramp{c.value("from"), c.value("to"), c.period("over", "")}
	case "leak":
		p = leak{c.value("base"), c.value("growth"), c.period("every", "1h")}
	case "burst":
		p = burst{c.value("base"), c.value("peak"), c.period("every", ""), c.duration("for", ""), c.duration("phase", "0s")}
	case "startup":
		p = step{before: c.value("first"), at: c.duration("for", ""), after: c.value("then")}
	case "step":
		p = step{before: c.value("before"), after: c.value("then"), at: c.duration("after", "")}
	case "sawtooth":
		p = sawtooth{c.value("low"), c.value("high"), c.period("period", "")}
	case "noise":
		n := noise{base: c.value("base"), spread: c.number("spread")}
		n.seed, n.seeded = c.seed("seed")
		n.every = c.period("every", "10s")
		p = n
	case "min":
		p = extreme{math.Min, c.values()}
	case "max":
		p = extreme{math.Max, c.values()}
	default:
		return nil, fmt.Errorf("unknown function %q", function)
	}
	return p, c.done()
}

type parser struct {
	text string
	at   int
}

func (p *parser) rest() string { return strings.TrimSpace(p.text[p.at:]) }

// next consumes c if it is the next character after white space.
func (p *parser) next(c byte) bool {
	for p.at < len(p.text) && unicode.IsSpace(rune(p.text[p.at])) {
		p.at++
	}
	if p.at < len(p.text) && p.text[p.at] == c {
		p.at++
		return true
	}
	return false
}

func (p *parser) sum() (Profile, error) {
	var terms sum
	for {
		term, err := p.term()
		if err != nil {
			return nil, err
		}
		terms = append(terms, term)
		if !p.next('+') {
			break
		}
	}
	if len(terms) == 1 {
		return terms[0], nil
	}
	return terms, nil
}

func (p *parser) term() (Profile, error) {
	word := p.word()
	if !p.next('(') {
		v, err := Quantity(word)
		return Constant(v), err
	}
	c, err := p.arguments()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", word, err)
	}
	profile, err := build(word, c)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", word, err)
	}
	return profile, nil
}

func (p *parser) word() string {
	for p.at < len(p.text) && unicode.IsSpace(rune(p.text[p.at])) {
		p.at++
	}
	start := p.at
	for p.at < len(p.text) && !strings.ContainsRune("(),+= \t\n", rune(p.text[p.at])) {
		p.at++
	}
	return p.text[start:p.at]
}

// arguments reads up to the closing parenthesis. Arguments stay text, because only the function knows which of them are
// values, durations or numbers.
func (p *parser) arguments() (*call, error) {
	c := &call{named: map[string]string{}}
	depth := 1
	start := p.at
	take := func(end int) error {
		argument := strings.TrimSpace(p.text[start:end])
		if name, value, named := strings.Cut(argument, "="); named && !strings.ContainsAny(name, "()") {
			name = strings.TrimSpace(name)
			if _, twice := c.named[name]; twice {
				return fmt.Errorf("argument %s is given twice", name)
			}
			c.named[name] = value
			return nil
		}
		if len(c.named) > 0 {
			return fmt.Errorf("positional argument %q must precede named arguments", argument)
		}
		c.plain = append(c.plain, argument)
		return nil
	}
	for ; p.at < len(p.text); p.at++ {
		switch p.text[p.at] {
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				err := take(p.at)
				p.at++
				return c, err
			}
		case ',':
			if depth == 1 {
				if err := take(p.at); err != nil {
					return nil, err
				}
				start = p.at + 1
			}
		}
	}
	return nil, fmt.Errorf("missing )")
}

// take consumes the argument with that name, else the next positional one, else it returns the default.
func (c *call) take(name, otherwise string) string {
	if v, ok := c.named[name]; ok {
		delete(c.named, name)
		return v
	}
	if len(c.plain) > 0 {
		v := c.plain[0]
		c.plain = c.plain[1:]
		return v
	}
	if otherwise == "" {
		c.fail(fmt.Errorf("missing argument %s", name))
	}
	return otherwise
}

func (c *call) value(name string) Profile {
	text := c.take(name, "")
	if c.err != nil {
		return Constant(0)
	}
	v, err := Parse(text)
	c.fail(err)
	return v
}

func (c *call) values() []Profile {
	var all []Profile
	for ok := true; ok; ok = len(c.plain) > 0 {
		all = append(all, c.value("value"))
	}
	return all
}

func (c *call) duration(name, otherwise string) time.Duration {
	text := c.take(name, otherwise)
	if c.err != nil {
		return 0
	}
	d, err := Duration(text)
	c.fail(err)
	return d
}

// period returns a duration that must be positive, because it is a divisor.
func (c *call) period(name, otherwise string) time.Duration {
	d := c.duration(name, otherwise)
	if c.err == nil && d <= 0 {
		c.fail(fmt.Errorf("%s must be positive", name))
	}
	return d
}

func (c *call) number(name string) float64 {
	text := c.take(name, "")
	if c.err != nil {
		return 0
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	c.fail(err)
	return v
}

func (c *call) seed(name string) (uint64, bool) {
	text, given := c.named[name]
	if !given {
		return 0, false
	}
	delete(c.named, name)
	v, err := strconv.ParseUint(strings.TrimSpace(text), 10, 64)
	c.fail(err)
	return v, true
}

func (c *call) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// done returns the first error, or an error for unused arguments.
func (c *call) done() error {
	if c.err == nil && len(c.plain) > 0 {
		return fmt.Errorf("too many arguments: %q", c.plain[0])
	}
	for name := range c.named {
		c.fail(fmt.Errorf("unknown argument %q", name))
	}
	return c.err
}

var units = []struct {
	suffix string
	factor float64
}{
	{"Ki", 1 << 10}, {"Mi", 1 << 20}, {"Gi", 1 << 30}, {"Ti", 1 << 40},
	{"m", 1e-3}, {"k", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12},
}

// Quantity parses a Kubernetes quantity.
func Quantity(text string) (float64, error) {
	factor := 1.0
	number := text
	for _, u := range units {
		if rest, ok := strings.CutSuffix(text, u.suffix); ok {
			factor = u.factor
			number = rest
			break
		}
	}
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || v < 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return 0, fmt.Errorf("%q is not a quantity", text)
	}
	return v * factor, nil
}

// Duration parses a Go duration, or a number of days (3d) or weeks (2w).
func Duration(text string) (time.Duration, error) {
	text = strings.TrimSpace(text)
	for suffix, unit := range map[string]time.Duration{"d": 24 * time.Hour, "w": 7 * 24 * time.Hour} {
		if number, ok := strings.CutSuffix(text, suffix); ok {
			n, err := strconv.ParseFloat(number, 64)
			if err != nil || n < 0 || n > 36500 {
				return 0, fmt.Errorf("%q is not a duration", text)
			}
			return time.Duration(n * float64(unit)), nil
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is not a duration", text)
	}
	return d, nil
}

// An Exit is the time at which a container exits on its own, and its exit code.
type Exit struct {
	After time.Duration // age of the container
	Code  int32
}

// ParseExit parses "after=90s,code=1". The default code is 0.
func ParseExit(text string) (*Exit, error) {
	e := &Exit{}
	for name, value := range pairs(text) {
		var err error
		switch name {
		case "after":
			e.After, err = Duration(value)
		case "code":
			var code int64
			code, err = strconv.ParseInt(value, 10, 32)
			e.Code = int32(code)
		default:
			err = fmt.Errorf("unknown field %q, must be after or code", name)
		}
		if err != nil {
			return nil, fmt.Errorf("exit %q: %w", text, err)
		}
	}
	return e, nil
}

// ParseReady parses "after=20s": the age at which the container's probes start to succeed.
func ParseReady(text string) (time.Duration, error) {
	e, err := ParseExit(text)
	if err != nil || e.Code != 0 {
		return 0, fmt.Errorf("ready must be after=DURATION, got %q", text)
	}
	return e.After, nil
}

func pairs(text string) map[string]string {
	all := map[string]string{}
	for _, part := range strings.Split(text, ",") {
		name, value, _ := strings.Cut(part, "=")
		all[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	return all
}
