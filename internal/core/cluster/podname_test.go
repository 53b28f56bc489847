// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import "testing"

func TestOwnerByName_generatedPodNames_giveWorkload(t *testing.T) {
	for pod, want := range map[string]string{
		"web-7d4b9c6f5d-x2k9p":       "shop/Deployment/web",
		"web-api-7d4b9c6f5d-x2k9p":   "shop/Deployment/web-api",
		"db-12":                      "shop/StatefulSet/db",
		"log-x2k9p":                  "shop/DaemonSet/log",
		"report-28391040-x2k9p":      "shop/CronJob/report",
		"alone":                      "shop/Pod/alone",
		"with-vowels-aeiou-aeiouaei": "shop/Pod/with-vowels-aeiou-aeiouaei",
	} {
		if got := OwnerByName(Key{Namespace: "shop", Name: pod}).String(); got != want {
			t.Errorf("pod %s: got workload %s, want %s", pod, got, want)
		}
	}
}
