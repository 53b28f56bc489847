// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"podfit.dev/podfit/test/e2e/bed"
	"podfit.dev/podfit/test/e2e/invariant"
)

// A checker checks the invariants while the tests run. A violation fails the test of its namespace, or the whole run if it
// belongs to no test.
type checker struct {
	witness *bed.Witness
	limits  invariant.Limits

	mu       sync.Mutex
	allowed  []allowance
	reported map[occurrence]bool
}

// An occurrence identifies a violation in the log, however long the log is.
type occurrence struct {
	rule   invariant.Rule
	object string
	at     time.Time
}

// An allowance is a rule that a test breaks on purpose.
type allowance struct {
	rule     invariant.Rule
	ns       string    // "" for all
	from, to time.Time // zero for all the time
	because  string
}

// covers reports whether a violation is allowed. Of repeated writes, the first or the last must be in the time.
func (a *allowance) covers(v invariant.Violation) bool {
	during := func(t time.Time) bool { return !t.Before(a.from) && (a.to.IsZero() || !t.After(a.to)) }
	return a.rule == v.Rule && (a.ns == "" || a.ns == v.Namespace) && (during(v.From) || during(v.At))
}

// allow declares that the test breaks a rule on purpose, and why.
func (p *place) allow(rule invariant.Rule, because string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.allowed = append(p.allowed, allowance{rule: rule, ns: p.ns, because: because})
}

// judge fails a test for violations in its namespace.
func (c *checker) judge(t *testing.T, ns string) {
	t.Helper()
	ctx, cancel := bed.WithPatience(context.Background(), time.Minute)
	defer cancel()
	found, excused, err := c.news(ctx, func(v invariant.Violation) bool { return v.Namespace == ns })
	if err != nil {
		t.Error(err)
	}
	for _, v := range excused {
		t.Log(v)
	}
	for _, v := range found {
		t.Errorf("invariant violated:\n%v", v)
	}
}

// last returns the violations that no test has reported.
func (c *checker) last(ctx context.Context) error {
	ctx, cancel := bed.WithPatience(ctx, time.Minute)
	defer cancel()
	found, _, err := c.news(ctx, func(invariant.Violation) bool { return true })
	for _, v := range found {
		err = errors.Join(err, fmt.Errorf("invariant violated outside of all tests:\n%v", v))
	}
	return err
}

// news returns the violations that were not returned before: those that are not allowed, and descriptions of the others.
func (c *checker) news(ctx context.Context, about func(invariant.Violation) bool) (found []invariant.Violation, excused []string, err error) {
	log, err := c.witness.Log(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("collect observations: %w", err)
	}
	found, excused = c.sort(invariant.Each(log, c.limits), about)
	return found, excused, nil
}

// sort remembers the violations that were not returned before, and returns those that are not allowed, and descriptions of the others.
func (c *checker) sort(all []invariant.Violation, about func(invariant.Violation) bool) (found []invariant.Violation, excused []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reported == nil {
		c.reported = map[occurrence]bool{}
	}
	for _, v := range all {
		k := occurrence{v.Rule, v.Object, v.At}
		if c.reported[k] || !about(v) {
			continue
		}
		c.reported[k] = true
		if why := c.excuse(v); why != "" {
			first, _, _ := strings.Cut(v.String(), "\n")
			excused = append(excused, "allowed ("+why+"): "+first)
			continue
		}
		found = append(found, v)
	}
	return invariant.Merge(found), excused
}

// excuse returns why a violation is allowed, or "".
func (c *checker) excuse(v invariant.Violation) string {
	for i := range c.allowed {
		if c.allowed[i].covers(v) {
			return c.allowed[i].because
		}
	}
	return ""
}

func TestChecker_severalRows_eachViolationIsReportedOnceByItsOwn(t *testing.T) {
	start := time.Unix(1_000_000, 0)
	violation := func(second int) invariant.Violation {
		at := start.Add(time.Duration(second) * time.Second)
		return invariant.Violation{Rule: invariant.BacksOff, From: at.Add(-5 * time.Second), At: at, Object: "secrets kube-system/vpa-tls-certs", Times: 1}
	}
	everything := func(invariant.Violation) bool { return true }
	c := &checker{allowed: []allowance{{rule: invariant.BacksOff, from: start, to: start.Add(10 * time.Second), because: "the first row breaks it"}}}
	var log []invariant.Violation
	for row, want := range []struct{ second, found, excused int }{{9, 0, 1}, {12, 0, 1}, {30, 1, 0}, {50, 1, 0}} { // the second burst began in the first row
		log = append(log, violation(want.second))
		found, excused := c.sort(log, everything)
		if len(found) != want.found || len(excused) != want.excused {
			t.Errorf("row %d: found %v and excused %v, want %d and %d", row, found, excused, want.found, want.excused)
		}
	}
	if found, excused := c.sort(log, everything); len(found)+len(excused) > 0 {
		t.Errorf("found again: %v, %v", found, excused)
	}
}
