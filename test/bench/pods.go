// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"podfit.dev/podfit/internal/core/cluster"
	"podfit.dev/podfit/internal/edge/kube/projection"
)

// podJSON is a typical pod from an API server, with one container, managed fields and status.
//
//go:embed testdata/pod.json
var podJSON string

const cachedPods = 5000

func nothing() struct{} { return struct{}{} }

func decodePod(i int) *corev1.Pod {
	p := new(corev1.Pod)
	text := strings.NewReplacer(`"NAME"`, fmt.Sprintf(`"checkout-7c9f8d6b5-%05d"`, i), `"UID"`, fmt.Sprintf(`"0f3a1c5e-7b2d-4e68-9a40-%012d"`, i)).Replace(podJSON)
	must(json.Unmarshal([]byte(text), p))
	return p
}

// upstreamPods is what upstream's updater keeps: complete objects.
func upstreamPods(struct{}) []*corev1.Pod {
	ps := make([]*corev1.Pod, cachedPods)
	for i := range ps {
		ps[i] = decodePod(i)
	}
	return ps
}

func podfitPods(struct{}) []*cluster.Pod {
	var in projection.Interner
	ps := make([]*cluster.Pod, cachedPods)
	for i := range ps {
		ps[i] = projection.Pod(decodePod(i), &in)
	}
	return ps
}
