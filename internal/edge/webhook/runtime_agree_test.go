// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"podfit.dev/podfit/internal/edge/kube/projection"
)

// The webhook and the updater must detect the same runtimes, or the updater evicts pods that get the same size again.
func TestDecodePod_runtimes_areThoseThatTheUpdaterDetects(t *testing.T) {
	many := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	for name, pod := range map[string]string{
		"java":        `{"spec":{"containers":[{"name":"app","command":["java","-Xmx1g"]}]}}`,
		"long value":  `{"spec":{"containers":[{"name":"app","env":[{"name":"JAVA_OPTS","value":"` + strings.Repeat("é", 2047) + ` x -Xmx1g -Xmx12345678"}]}]}}`,
		"escaped":     `{"spec":{"containers":[{"name":"app","env":[{"name":"JAVA_OPTS","value":"-Xmx1g\t\"-Xmx2g\" \u0026 \ud800"}]}]}}`,
		"late":        `{"spec":{"containers":[{"name":"app","env":[` + many(511, `{"name":"A%d"},`) + `{"name":"JAVA_OPTS","value":"-Xmx1g"}]}]}}`,
		"too late":    `{"spec":{"containers":[{"name":"app","env":[` + many(512, `{"name":"A%d"},`) + `{"name":"JAVA_OPTS","value":"-Xmx1g"}]}]}}`,
		"many words":  `{"spec":{"containers":[{"name":"app","command":["java"],"args":[` + many(62, `"a%d",`) + `"-Xmx1g","-Xmx2g"]}]}}`,
		"label":       `{"metadata":{"labels":{"podfit.dev/runtime":"jvm","runtime.podfit.dev/app":"none"}},"spec":{"containers":[{"name":"app","image":"java"},{"name":"b"}]}}`,
		"empty label": `{"metadata":{"labels":{"podfit.dev/runtime":"jvm","runtime.podfit.dev/app":""}},"spec":{"containers":[{"name":"app","image":"java"}]}}`,
		"most labels": `{"metadata":{"labels":{` + many(1023, `"l%d":"x",`) + `"podfit.dev/runtime":"none"}},"spec":{"containers":[{"name":"app","image":"java"}]}}`,
		"many labels": `{"metadata":{"labels":{` + many(1100, `"l%d":"x",`) + `"podfit.dev/runtime":"none"}},"spec":{"containers":[{"name":"app","image":"java"}]}}`,
		"env null":    `{"spec":{"containers":[{"name":"app","image":"java","env":null,"envFrom":null}]}}`,
		"long image":  `{"spec":{"containers":[{"name":"app","image":"x/` + strings.Repeat("a", 4090) + `/java:1"}]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			var whole corev1.Pod
			if err := json.Unmarshal([]byte(pod), &whole); err != nil {
				t.Fatal(err)
			}
			got, err := decodePod([]byte(pod))
			if err != nil {
				t.Fatal(err)
			}
			a, b := projection.Pod(got, nil).Runtimes, projection.Pod(&whole, nil).Runtimes
			if !reflect.DeepEqual(a, b) {
				t.Errorf("the webhook detects %+v, the updater %+v", a, b)
			}
		})
	}
}
