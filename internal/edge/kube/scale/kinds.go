// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"podfit.dev/podfit/internal/edge/kube"
	"podfit.dev/podfit/internal/edge/kube/projection"
)

const (
	kindsRefresh = 5 * time.Minute  // regular interval of discovery
	kindsPause   = 10 * time.Second // minimum interval of discovery, for any number of unknown kinds
	maxAsked     = 4096             // bound of the stored unknown kinds; tenants can name any kind as owner or target
	kindsTimeout = 30 * time.Second // timeout of one discovery
	kindsYoung   = 2 * time.Minute  // time for which discovery is repeated for an unknown kind: it lists a new kind later than it is served
)

// A Kind describes how the API server serves a kind of object. The zero value means that it does not serve it.
type Kind struct {
	Version  string // a version that serves the scale subresource, if one does
	Resource string // plural
	Scale    bool   // there is a scale subresource
}

// Scalable reports whether the kind is served and has a scale subresource.
func (k Kind) Scalable() bool { return k.Resource != "" && k.Scale }

// find returns how a kind is served, or the zero Kind if it is not served. For a new unknown kind the error is ErrPending until
// the next discovery, because the CRD of the kind may be newer than the last one.
func (c *Cache) find(gk projection.GroupKind) (Kind, error) {
	if info, ok := c.served[gk]; ok {
		return info, nil
	}
	since, waiting := c.asked[gk]
	if !waiting && len(c.asked) >= maxAsked {
		return Kind{}, ErrPending // until some of them expire
	}
	if !waiting {
		c.asked[gk] = time.Now()
		kube.Signal(c.wakeKinds)
		return Kind{}, ErrPending
	}
	if !c.loaded.After(since) {
		return Kind{}, ErrPending
	}
	return Kind{}, nil
}

// A discoverer lists the API groups and resources of the API server.
type discoverer interface {
	ServerGroupsAndResourcesWithContext(context.Context) ([]*metav1.APIGroup, []*metav1.APIResourceList, error)
}

// discoverKinds refreshes the kinds until ctx ends, and reports a change after each attempt.
func (c *Cache) discoverKinds(ctx context.Context, d discoverer) {
	tick := time.NewTicker(kindsRefresh)
	defer tick.Stop()
	for {
		err := c.refreshKinds(ctx, d)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			c.log.Warn("Discovery failed; the known kinds are kept", slog.Any("error", err))
			kube.Signal(c.wakeKinds)
		}
		c.mu.Lock()
		c.tried = true
		c.notify()
		c.mu.Unlock()
		if !kube.Sleep(ctx, kindsPause) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-c.wakeKinds:
		}
	}
}

func (c *Cache) refreshKinds(ctx context.Context, d discoverer) error {
	ctx, cancel := context.WithTimeout(ctx, kindsTimeout)
	defer cancel()
	began := time.Now()
	groups, lists, err := d.ServerGroupsAndResourcesWithContext(ctx)
	failed := new(discovery.ErrGroupDiscoveryFailed)
	if err != nil && !errors.As(err, &failed) {
		return fmt.Errorf("discover kinds: %w", err)
	}
	fresh := kindsIn(groups, lists)

	c.mu.Lock()
	defer c.mu.Unlock()
	lost := make(map[string]bool)
	for gv := range failed.Groups {
		lost[gv.Group] = true
	}
	for gk, info := range c.served {
		if _, ok := fresh[gk]; !ok && lost[gk.Group] {
			fresh[gk] = info
		}
	}
	c.served = fresh
	c.loaded = began
	maps.DeleteFunc(c.asked, func(gk projection.GroupKind, since time.Time) bool {
		_, served := fresh[gk]
		return served || lost[gk.Group] || began.Sub(since) > time.Hour // it is served, still unknown, or possibly not needed any more
	})
	for _, since := range c.asked {
		if began.Sub(since) < kindsYoung {
			kube.Signal(c.wakeKinds)
			break
		}
	}
	return nil
}

// kindsIn returns the result of discovery by kind. A version with a scale subresource has priority over one without, then the
// preferred version of the group over others.
func kindsIn(groups []*metav1.APIGroup, lists []*metav1.APIResourceList) map[projection.GroupKind]Kind {
	preferred := make(map[string]string)
	for _, g := range groups {
		preferred[g.Name] = g.PreferredVersion.Version
	}
	out := make(map[projection.GroupKind]Kind)
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		scalable := make(map[string]bool)
		for i := range list.APIResources {
			if name, ok := strings.CutSuffix(list.APIResources[i].Name, "/scale"); ok {
				scalable[name] = true
			}
		}
		for i := range list.APIResources {
			r := &list.APIResources[i]
			if strings.Contains(r.Name, "/") || !r.Namespaced {
				continue
			}
			gk := projection.GroupKind{Group: gv.Group, Kind: r.Kind}
			k := Kind{Version: gv.Version, Resource: r.Name, Scale: scalable[r.Name]}
			before, ok := out[gk]
			if !ok || (k.Scale && !before.Scale) ||
				(k.Scale == before.Scale && k.Version == preferred[gv.Group] && before.Version != k.Version) {
				out[gk] = k
			}
		}
	}
	return out
}
