// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"podfit.dev/podfit/internal/app/updater"
)

func TestRunConfig_prometheusOfTheRecommender_isTheUpdatersToo(t *testing.T) {
	const address = "http://prometheus.monitoring.svc"
	for name, c := range map[string]struct {
		args    []string
		want    updater.PrometheusConfig
		problem string
	}{
		"none":    {nil, updater.PrometheusConfig{NamespaceLabel: "namespace", PodLabel: "pod", ContainerLabel: "container"}, ""},
		"storage": {[]string{"--storage=prometheus"}, updater.PrometheusConfig{Address: address, NamespaceLabel: "namespace", PodLabel: "pod", ContainerLabel: "container"}, ""},
		"address is the default one": {[]string{"--prometheus-address=" + address},
			updater.PrometheusConfig{Address: address, NamespaceLabel: "namespace", PodLabel: "pod", ContainerLabel: "container"}, ""},
		"credentials and labels": {[]string{"--prometheus-address=https://p", "--prometheus-insecure", "--prometheus-bearer-token=t", "--username=u", "--password=p",
			"--container-namespace-label=ns", "--container-pod-name-label=pod_id", "--container-name-label=c"},
			updater.PrometheusConfig{Address: "https://p", Insecure: true, Token: "t", Username: "u", Password: "p", NamespaceLabel: "ns", PodLabel: "pod_id", ContainerLabel: "c"}, ""},
		"no URL": {[]string{"--prometheus-address=p:9090"},
			updater.PrometheusConfig{Address: "p:9090", NamespaceLabel: "namespace", PodLabel: "pod", ContainerLabel: "container"}, "--prometheus-address must be a URL"},
	} {
		t.Run(name, func(t *testing.T) {
			config := runDefaults()
			fs := pflag.NewFlagSet("run", pflag.ContinueOnError)
			config.Flags(fs)
			if err := fs.Parse(c.args); err != nil {
				t.Fatal(err)
			}
			err := config.Validate()
			config.share()
			if config.Updater.Prometheus != c.want {
				t.Errorf("got %+v, want %+v", config.Updater.Prometheus, c.want)
			}
			if (err == nil) != (c.problem == "") || err != nil && !strings.Contains(err.Error(), c.problem) {
				t.Errorf("error %v", err)
			}
		})
	}
}
