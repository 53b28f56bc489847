// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Package provision asks for the room of replacements before pods are evicted, by placeholder pods and ProvisioningRequests.
//
// It does not decide when to ask: that is a decision of package headroom.
package provision

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/headroom"
	"podfit.dev/podfit/internal/edge/kube"
)

const (
	// providerInterval is how often the updater checks whether it can ask for capacity, and reads its ProvisioningRequests if it has
	// found none.
	providerInterval = 5 * time.Minute
	// requestsInterval is how often the updater reads its ProvisioningRequests while there are some.
	requestsInterval = 10 * time.Second
	// requestTimeout limits one request about capacity, so that a pass does not wait for it for long.
	requestTimeout = 10 * time.Second
)

// Client creates and deletes requests for capacity of one kind.
type Client interface {
	Available(ctx context.Context, dryRun bool) (problem string, err error)
	Create(ctx context.Context, p *cluster.Pod, size cluster.Resources) error
	Delete(ctx context.Context, r *cluster.CapacityRequest) error
}

// Lister reads ProvisioningRequests. Placeholder pods are among the pods of the watch.
type Lister interface {
	List(ctx context.Context) ([]cluster.CapacityRequest, error)
}

// Provider is how the updater asks for capacity before an eviction.
type Provider struct {
	isOff    bool // requests are only deleted
	dryRun   bool
	log      *slog.Logger
	ways     map[cluster.RequestKind]*way // empty: it does not ask
	requests Lister                       // nil: there are no ProvisioningRequests
	found    []cluster.CapacityRequest    // when they were last read
	listed   time.Time                    // when that was last tried
	read     bool                         // they were read once
	clean    bool                         // no ProvisioningRequest is left after the feature was switched off
	reported string                       // how capacity is asked for, as it was logged
	logged   map[string]bool              // steps that a dry run has logged, by the UID of the pod
	mu       sync.Mutex                   // guards listed while pods are changed
}

type way struct {
	client  Client
	checked time.Time // when Available was last called
	known   bool      // Available has answered once
	problem string    // why it cannot be used; "" if it can
}

// New returns a Provider that has no way to ask yet. One that is off only deletes what an earlier one has created.
func New(isOff, dryRun bool, log *slog.Logger) *Provider {
	return &Provider{isOff: isOff, dryRun: dryRun, log: log}
}

// Use sets the ways to ask for capacity, and how ProvisioningRequests are read: nil if they are not.
func (c *Provider) Use(ways map[cluster.RequestKind]Client, requests Lister) {
	c.ways = map[cluster.RequestKind]*way{}
	for kind, client := range ways {
		c.ways[kind] = &way{client: client}
	}
	c.requests = requests
}

// Asks reports whether there is a way to ask for capacity of a kind.
func (c *Provider) Asks(kind cluster.RequestKind) bool { return c.ways[kind] != nil }

// Reread makes the next pass read the ProvisioningRequests.
func (c *Provider) Reread() { c.listed = time.Time{} }

// Check returns how capacity is asked for in this pass, and the ProvisioningRequests. While that cannot be checked, the last answer
// applies. If there is none yet, it is assumed that placeholder pods can be created, so that no pod is evicted whose replacement has no
// room.
func (c *Provider) Check(ctx context.Context, now time.Time) (headroom.Provider, []cluster.CapacityRequest) {
	switch {
	case len(c.ways) == 0:
		return headroom.NotAsked, nil
	case c.isOff:
		c.listLeftovers(ctx, now)
		return headroom.NotAsked, c.found
	}
	for kind, way := range c.ways {
		interval := providerInterval
		if !way.known {
			interval = requestsInterval
		}
		if way.checked.IsZero() || now.Sub(way.checked) >= interval || now.Before(way.checked) {
			c.checkProvider(ctx, now, kind, way)
		}
	}
	provider := headroom.NoProvider
	placeholders := c.ways[cluster.PlaceholderPod]
	requests := c.ways[cluster.ProvisioningRequest]
	if placeholders != nil && placeholders.problem == "" {
		provider |= headroom.PlaceholderPods
	}
	if requests != nil && requests.known && requests.problem == "" {
		provider |= headroom.ProvisioningRequests
		c.listRequests(ctx, now)
	} else {
		c.found = nil
	}
	c.reportProvider(provider)
	return provider, c.found
}

func (c *Provider) checkProvider(ctx context.Context, now time.Time, kind cluster.RequestKind, way *way) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	problem, err := way.client.Available(ctx, c.dryRun)
	way.checked = now
	if err != nil {
		c.log.Warn("Cannot check whether capacity can be requested; the last known answer applies", slog.String("kind", kind.String()), slog.Any("error", err))
		return
	}
	way.known = true
	way.problem = problem
}

// listRequests reads the ProvisioningRequests: often while there are some, and else rarely, because only podfit creates them.
func (c *Provider) listRequests(ctx context.Context, now time.Time) {
	interval := providerInterval
	if len(c.found) > 0 {
		interval = requestsInterval
	}
	if !c.listed.IsZero() && !now.Before(c.listed) && now.Sub(c.listed) < interval {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	found, err := c.requests.List(ctx)
	c.listed = now
	if err != nil {
		c.log.Warn("Cannot read ProvisioningRequests; the last known ones are used", slog.Any("error", err))
		return
	}
	c.found = found
	c.read = true
}

// NextRead returns when the ProvisioningRequests are read again, if one of them has no final answer or was created or deleted since they were
// read; zero otherwise.
func (c *Provider) NextRead(now time.Time) time.Time {
	way := c.ways[cluster.ProvisioningRequest]
	isOpen := func(r cluster.CapacityRequest) bool {
		return r.State == cluster.RequestWaiting || r.State == cluster.RequestAccepted
	}
	if way == nil || !way.known || way.problem != "" || !c.listed.IsZero() && !slices.ContainsFunc(c.found, isOpen) {
		return time.Time{}
	}
	return now.Add(requestsInterval)
}

// listLeftovers reads the ProvisioningRequests that an updater before this one has created, until there are none, so that they are
// deleted after the feature is switched off.
func (c *Provider) listLeftovers(ctx context.Context, now time.Time) {
	way := c.ways[cluster.ProvisioningRequest]
	if way == nil || c.clean {
		return
	}
	if !way.known {
		c.checkProvider(ctx, now, cluster.ProvisioningRequest, way)
	}
	switch {
	case !way.known:
	case way.problem == "":
		c.listRequests(ctx, now)
		c.clean = c.read && len(c.found) == 0
	default:
		c.clean = true
	}
}

// reportProvider logs how capacity is asked for, when that changes.
func (c *Provider) reportProvider(provider headroom.Provider) {
	var usable, problems []string
	for _, kind := range []cluster.RequestKind{cluster.ProvisioningRequest, cluster.PlaceholderPod} {
		switch way := c.ways[kind]; {
		case way == nil || !way.known:
		case way.problem == "":
			usable = append(usable, kind.String())
		default:
			problems = append(problems, kind.String()+": "+way.problem)
		}
	}
	report := strings.Join(append(usable, problems...), "; ")
	if report == c.reported {
		return
	}
	c.reported = report
	if provider == headroom.NoProvider {
		c.log.Warn("Cannot request capacity before evictions; pods whose replacement has no room are not evicted",
			slog.String("reason", strings.Join(problems, "; ")),
			slog.String("remedy", "kubectl apply -f deploy/rights/placeholders/placeholders.yaml (rights.placeholders=true in the chart), or set --capacity-before-eviction=off"))
		return
	}
	c.log.Info("Requesting capacity for replacements before pods are evicted", slog.String("kind", strings.Join(usable, ", ")),
		slog.String("reason", strings.Join(problems, "; ")))
}

// About returns the pod that a step is about.
func About(step *headroom.Step) cluster.Key {
	if step.Pod != nil {
		return step.Pod.Key
	}
	return step.Request.Key
}

// CarryOut creates or deletes a request for capacity.
func (c *Provider) CarryOut(ctx context.Context, step *headroom.Step) error {
	client := c.ways[step.Kind].client
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	log := c.log.With(slog.String("pod", About(step).String()), slog.String("kind", step.Kind.String()))
	var err error
	if step.Request == nil {
		log = log.With(slog.String("vpa", step.Autoscaler.Key.String()), slog.String("wanted", step.Size.String()))
		err = client.Create(ctx, step.Pod, step.Size)
	} else {
		log = log.With(slog.String("object", step.Request.Key.String()), slog.String("reason", string(step.Release)))
		err = client.Delete(ctx, step.Request)
	}
	switch {
	case err == nil && step.Request == nil:
		log.Info("Created a request for capacity before an eviction")
	case err == nil:
		log.Info("Deleted a request for capacity")
	case errors.Is(err, kube.ErrNotSent), errors.Is(err, kube.ErrNotFound):
		log.Debug("Failed to create or delete a request for capacity; the next pass decides whether to try again", slog.Any("error", err))
	default:
		log.Warn("Failed to create or delete a request for capacity", slog.String("error", kube.Answer(err)))
	}
	return err
}

// ReleaseAfter deletes the request for an evicted pod, so that its replacement gets the room. It comes after the eviction: before, the
// eviction may still be refused, and other pods would take the room. If the scheduler is faster, it preempts the placeholder pod. If the
// deletion fails, the next pass repeats it, and the garbage collector deletes the request with the evicted pod.
func (c *Provider) ReleaseAfter(ctx context.Context, d *decision.Decision) {
	if d.Request == nil || d.Do != decision.Evict || c.ways[d.Request.Kind] == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	log := c.log.With(slog.String("pod", d.Pod.Key.String()), slog.String("object", d.Request.Key.String()),
		slog.String("kind", d.Request.Kind.String()))
	if err := c.ways[d.Request.Kind].client.Delete(ctx, d.Request); err != nil {
		log.Info("Failed to delete a request for capacity after the eviction; the next pass repeats it", slog.String("error", kube.Answer(err)))
		return
	}
	c.mu.Lock()
	c.listed = time.Time{} // the next pass reads what has changed
	c.mu.Unlock()
	log.Info("Deleted a request for capacity", slog.String("reason", string(headroom.ReleaseGone)))
}

// LogSteps logs which requests for capacity would be created, once for each pod.
func (c *Provider) LogSteps(steps []headroom.Step) {
	current := make(map[string]bool, len(steps))
	for i := range steps {
		step := &steps[i]
		if step.Request != nil {
			continue // it belongs to the updater that is not a dry run
		}
		current[step.Pod.UID] = true
		if !c.logged[step.Pod.UID] {
			c.log.Info("Would create a request for capacity before an eviction", slog.String("pod", step.Pod.Key.String()),
				slog.String("kind", step.Kind.String()),
				slog.String("vpa", step.Autoscaler.Key.String()), slog.String("wanted", step.Size.String()))
		}
	}
	c.logged = current
}
