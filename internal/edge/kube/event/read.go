// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package event

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/core/explanation"
	"podfit.dev/podfit/internal/core/overview"
	"podfit.dev/podfit/internal/edge/kube"
)

// maxEvents bounds the events that List and Recent read.
const maxEvents = 2000

// List reads events of a namespace, the newest last. The API server keeps them for an hour by default.
func List(ctx context.Context, c *kube.Clients, namespace string) ([]explanation.Event, error) {
	var out []explanation.Event
	options := metav1.ListOptions{Limit: kube.PageSize}
	for len(out) < maxEvents {
		page, err := c.Core.CoreV1().Events(namespace).List(ctx, options)
		if err != nil {
			return nil, fmt.Errorf("list events: %w", err)
		}
		for i := range page.Items {
			out = append(out, eventOf(&page.Items[i]))
		}
		if options.Continue = page.Continue; options.Continue == "" {
			break
		}
	}
	slices.SortStableFunc(out, func(a, b explanation.Event) int {
		return cmp.Or(a.At.Compare(b.At), strings.Compare(a.Name, b.Name), strings.Compare(a.Reason, b.Reason))
	})
	return out, nil
}

// timeOfEvent returns when an event happened last.
func timeOfEvent(e *corev1.Event) time.Time {
	at := e.LastTimestamp.Time
	for _, other := range []time.Time{e.EventTime.Time, e.FirstTimestamp.Time} {
		if at.IsZero() {
			at = other
		}
	}
	if e.Series != nil && e.Series.LastObservedTime.After(at) {
		at = e.Series.LastObservedTime.Time
	}
	return at
}

func eventOf(e *corev1.Event) explanation.Event {
	return explanation.Event{
		At: timeOfEvent(e), Kind: e.InvolvedObject.Kind, Name: e.InvolvedObject.Name, Reason: e.Reason, Message: e.Message, Count: max(1, e.Count),
	}
}

// Recent returns the events about pods that podfit has written and the API server still has, the newest first. The API server
// keeps events for an hour by default.
func Recent(ctx context.Context, c *kube.Clients, namespace string) ([]overview.Entry, error) {
	list, err := c.Core.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{
		FieldSelector: "source=" + Source + ",involvedObject.kind=Pod", Limit: maxEvents,
	})
	if err != nil {
		return nil, fmt.Errorf("list events: %w", err)
	}
	events := make([]*corev1.Event, len(list.Items))
	for i := range list.Items {
		events[i] = &list.Items[i]
	}
	slices.SortStableFunc(events, func(a, b *corev1.Event) int { return timeOfEvent(b).Compare(timeOfEvent(a)) })
	out := make([]overview.Entry, 0, len(events))
	for _, e := range events {
		out = append(out, entryOfEvent(e))
	}
	return out, nil
}

// eventActs are the acts of the updater that events report.
var eventActs = map[string]string{EvictedByVPA: "evict", InPlaceResizedByVPA: "resize"}

func entryOfEvent(e *corev1.Event) overview.Entry {
	act := eventActs[e.Reason]
	if act == "" {
		act = "leave"
	}
	return overview.Entry{
		At: timeOfEvent(e).UTC(), Pod: cluster.Key{Namespace: e.InvolvedObject.Namespace, Name: e.InvolvedObject.Name},
		Act: act, Reason: e.Reason, Text: strings.TrimSpace(e.Message),
	}
}
