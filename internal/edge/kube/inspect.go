// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kube

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
)

// PodDetails are the fields of a pod that only an explanation needs.
type PodDetails struct {
	Labels     []string // "key=value", sorted
	Containers []explanation.Container
}

// ReadPod reads the details of a pod.
func ReadPod(ctx context.Context, c *Clients, key cluster.Key) (PodDetails, error) {
	p, err := c.Core.CoreV1().Pods(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	if err != nil {
		return PodDetails{}, fmt.Errorf("get pod %s: %w", key, err)
	}
	var out PodDetails
	for k, v := range p.Labels {
		out.Labels = append(out.Labels, k+"="+v)
	}
	slices.Sort(out.Labels)
	for i := range p.Spec.Containers {
		out.Containers = append(out.Containers, containerDetails(&p.Spec.Containers[i]))
	}
	return out, nil
}

// containerDetails returns what shows a Java virtual machine. Other values of the environment may be secret and are not kept.
func containerDetails(c *corev1.Container) explanation.Container {
	out := explanation.Container{Name: c.Name, Image: c.Image, Command: slices.Concat(c.Command, c.Args)}
	for _, e := range c.Env {
		if strings.HasPrefix(e.Name, "JAVA_") || strings.HasPrefix(e.Name, "JDK_") || e.Name == "JVM_OPTS" {
			out.Environment = append(out.Environment, e.Name+"="+e.Value)
		}
	}
	return out
}

// maxEvents bounds the events that ReadEvents and RecentEvents read.
const maxEvents = 2000

// ReadEvents reads events of a namespace, the newest last. The API server keeps them for an hour by default.
func ReadEvents(ctx context.Context, c *Clients, namespace string) ([]explanation.Event, error) {
	var out []explanation.Event
	options := metav1.ListOptions{Limit: PageSize}
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
