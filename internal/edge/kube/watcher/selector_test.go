// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package watcher

import "testing"

func TestParseSelector_eachKind_readsItsField(t *testing.T) {
	tests := map[string]struct{ kind, object, want string }{
		"a Deployment":             {"Deployment", `{"spec":{"selector":{"matchLabels":{"app":"web"},"matchExpressions":[{"key":"tier","operator":"In","values":["a","b"]}]}}}`, "app=web,tier in (a,b)"},
		"a ReplicationController":  {"ReplicationController", `{"spec":{"selector":{"app":"web"}}}`, "app=web"},
		"a CronJob":                {"CronJob", `{"spec":{"jobTemplate":{"spec":{"template":{"metadata":{"labels":{"job":"report"}}}}}}}`, "job=report"},
		"a CronJob without labels": {"CronJob", `{"spec":{"jobTemplate":{}}}`, ""},
		"a Job without a selector": {"Job", `{"spec":{}}`, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s, err := parseSelector(tt.kind, []byte(tt.object))
			if err != nil {
				t.Fatal(err)
			}
			if got := s.String(); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	if _, err := parseSelector("Deployment", []byte(`{"spec":{"selector":7}}`)); err == nil {
		t.Error("no error for a selector that is a number")
	}
}
