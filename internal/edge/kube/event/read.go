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
	"podfit.dev/podfit/internal/core/decision"
	"podfit.dev/podfit/internal/core/explanation"
	"podfit.dev/podfit/internal/core/overview"
	"podfit.dev/podfit/internal/core/wording"
	"podfit.dev/podfit/internal/edge/kube"
)

// List reads events of a namespace, the newest last, without those of other components with a reason of podfit. The API server keeps them
// for an hour by default.
func List(ctx context.Context, c *kube.Clients, namespace string) ([]explanation.Event, error) {
	const maxEvents = 2000
	var out []explanation.Event
	options := metav1.ListOptions{Limit: kube.PageSize}
	for len(out) < maxEvents {
		page, err := c.Core.CoreV1().Events(namespace).List(ctx, options)
		if err != nil {
			return nil, fmt.Errorf("list events: %w", err)
		}
		for i := range page.Items {
			if e := &page.Items[i]; isOurs(e) || !slices.Contains(composed, e.Reason) {
				out = append(out, eventOf(e))
			}
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

var composed = []string{EvictedByVPA, EvictedPod, InPlaceResizedByVPA, InPlaceResizeSkipped}

// timeOfEvent returns when an event happened last.
func timeOfEvent(e *corev1.Event) time.Time {
	at := cmp.Or(e.LastTimestamp.Time, e.EventTime.Time, e.FirstTimestamp.Time)
	if e.Series != nil && e.Series.LastObservedTime.After(at) {
		at = e.Series.LastObservedTime.Time
	}
	return at
}

func timesOf(e *corev1.Event) int {
	if e.Series != nil {
		return max(1, int(e.Series.Count))
	}
	return max(1, int(e.Count))
}

func eventOf(e *corev1.Event) explanation.Event {
	out := explanation.Event{
		At: timeOfEvent(e), Kind: e.InvolvedObject.Kind, Name: e.InvolvedObject.Name, Reason: e.Reason, Message: e.Message, Count: int32(timesOf(e)),
	}
	if isOurs(e) && out.Kind == "Pod" {
		change := entryOfEvent(e)
		out.Message = change.Text
		out.VPA = change.VPA
	}
	return out
}

// Bounds of Recent.
const (
	maxEach  = 500 // events of one namespace
	maxPages = 40  // of kube.PageSize events
)

// Recent returns events about pods that podfit has written and the API server still has, the newest first. The API server keeps events for
// an hour by default. Of a namespace with more than maxEach, it returns some, so that these do not hide the events of others: the API server
// lists namespace after namespace, so it is asked again without the ones that have enough.
func Recent(ctx context.Context, c *kube.Clients, namespace string) ([]overview.Entry, error) {
	selector := "source=" + Source + ",involvedObject.kind=Pod"
	options := metav1.ListOptions{FieldSelector: selector, Limit: kube.PageSize}
	var full []overview.Entry
	read := map[string][]overview.Entry{}
	for range maxPages {
		list, err := c.Core.CoreV1().Events(namespace).List(ctx, options)
		if err != nil {
			return nil, fmt.Errorf("list events: %w", err)
		}
		options.Continue = list.Continue
		for i := range list.Items {
			e := &list.Items[i]
			if isOurs(e) {
				read[e.Namespace] = append(read[e.Namespace], entryOfEvent(e))
			}
		}
		if options.Continue == "" {
			break
		}
		for name, entries := range read {
			if len(entries) >= maxEach && name != namespace {
				full = append(full, entries...)
				options.FieldSelector += ",metadata.namespace!=" + name
				options.Continue = ""
			}
		}
		if options.Continue == "" {
			clear(read)
		}
	}
	out := full
	for _, entries := range read {
		out = append(out, entries...)
	}
	slices.SortFunc(out, func(a, b overview.Entry) int {
		return cmp.Or(b.At.Compare(a.At), a.Pod.Compare(b.Pod), strings.Compare(a.Reason, b.Reason), strings.Compare(a.Text, b.Text))
	})
	return out, nil
}

// isOurs reports whether the updater has sent an event. Anyone who may write events can claim to be another component, but components do not.
func isOurs(e *corev1.Event) bool { return cmp.Or(e.Source.Component, e.ReportingController) == Source }

// The annotations of events about changes. The API server limits the texts of events to upstream's, which name neither a reason nor an amount.
const (
	annotationReason   = "podfit.dev/reason"      // stable name of the reason
	annotationText     = "podfit.dev/reason-text" // the reason as sentences
	annotationChange   = "podfit.dev/change"      // requests before and after
	annotationWorkload = "podfit.dev/workload"    // GROUP/KIND/NAME
	annotationVPA      = "podfit.dev/vpa"

	maxAnnotation = 1024 // bytes of an annotation that are read, as of the text of an event
)

// annotationsOf returns the annotations of the event about a change. None is left out, because a patch keeps those that it does not name.
func annotationsOf(d *decision.Decision) map[string]string {
	e := overview.EntryOf(time.Time{}, d)
	return map[string]string{
		annotationReason: e.Reason, annotationText: e.Text, annotationChange: e.Change, annotationVPA: e.VPA,
		annotationWorkload: strings.Join([]string{e.Workload.Group, e.Workload.Kind, e.Workload.Name}, "/"),
	}
}

// acts are what events about pods report.
var acts = map[string]decision.Act{EvictedByVPA: decision.Evict, InPlaceResizedByVPA: decision.Resize, OOMRescued: decision.Delete, Surge: decision.Surge}

// entryOfEvent returns what an event reports. Events of upstream and of earlier versions have no annotations.
func entryOfEvent(e *corev1.Event) overview.Entry {
	read := func(key string) string {
		return wording.Shortened(strings.ToValidUTF8(e.Annotations[key], ""), maxAnnotation)
	}
	out := overview.Entry{
		At: timeOfEvent(e).UTC(), Pod: cluster.Key{Namespace: e.InvolvedObject.Namespace, Name: e.InvolvedObject.Name}, Act: cmp.Or(acts[e.Reason], decision.Leave).String(),
		Reason: cmp.Or(read(annotationReason), e.Reason), Text: cmp.Or(read(annotationText), strings.TrimSpace(e.Message)),
		Change: read(annotationChange), VPA: read(annotationVPA),
	}
	if acts[e.Reason] != decision.Leave {
		out.Times = timesOf(e)
	}
	if of := strings.Split(read(annotationWorkload), "/"); len(of) == 3 && of[1] != "" && of[2] != "" {
		out.Workload = cluster.Workload{Group: of[0], Kind: of[1], Namespace: out.Pod.Namespace, Name: of[2]}
	}
	return out
}
