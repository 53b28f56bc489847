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
	reported map[string]bool // by rule and object
}

// An allowance is a rule that a test breaks on purpose.
type allowance struct {
	rule    invariant.Rule
	ns      string
	because string
}

// allow declares that the test breaks a rule on purpose, and why.
func (p *place) allow(rule invariant.Rule, because string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.allowed = append(p.allowed, allowance{rule, p.ns, because})
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
	all := invariant.Judge(log, c.limits)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reported == nil {
		c.reported = map[string]bool{}
	}
	for _, v := range all {
		k := string(v.Rule) + " " + v.Object
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
	return found, excused, nil
}

// excuse returns why a violation is allowed, or "".
func (c *checker) excuse(v invariant.Violation) string {
	for _, a := range c.allowed {
		if a.rule == v.Rule && a.ns == v.Namespace {
			return a.because
		}
	}
	return ""
}
