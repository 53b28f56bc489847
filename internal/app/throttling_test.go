// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"podfit.dev/podfit/internal/edge/prom"
)

func TestRunConfig_prometheusOfTheRecommender_isTheUpdatersToo(t *testing.T) {
	const address = "http://prometheus.monitoring.svc"
	for name, c := range map[string]struct {
		args    []string
		want    prom.Config
		problem string
	}{
		"none":    {nil, prom.Config{NamespaceLabel: "namespace", PodLabel: "pod", ContainerLabel: "container"}, ""},
		"storage": {[]string{"--storage=prometheus"}, prom.Config{Address: address, NamespaceLabel: "namespace", PodLabel: "pod", ContainerLabel: "container"}, ""},
		"address is the default one": {[]string{"--prometheus-address=" + address},
			prom.Config{Address: address, NamespaceLabel: "namespace", PodLabel: "pod", ContainerLabel: "container"}, ""},
		"credentials and labels": {[]string{"--prometheus-address=https://p", "--prometheus-insecure", "--prometheus-bearer-token=t", "--username=u", "--password=p",
			"--container-namespace-label=ns", "--container-pod-name-label=pod_id", "--container-name-label=c"},
			prom.Config{Address: "https://p", Insecure: true, Token: "t", Username: "u", Password: "p", NamespaceLabel: "ns", PodLabel: "pod_id", ContainerLabel: "c"}, ""},
		"no URL": {[]string{"--prometheus-address=p:9090"},
			prom.Config{Address: "p:9090", NamespaceLabel: "namespace", PodLabel: "pod", ContainerLabel: "container"}, "--prometheus-address must be a URL"},
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
			p := config.Updater.Prometheus
			got := prom.Config{
				Address: p.Address, Insecure: p.Insecure, Token: p.Token, TokenFile: p.TokenFile, Username: p.Username, Password: p.Password,
				NamespaceLabel: p.NamespaceLabel, PodLabel: p.PodLabel, ContainerLabel: p.ContainerLabel,
			}
			if got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			if (err == nil) != (c.problem == "") || err != nil && !strings.Contains(err.Error(), c.problem) {
				t.Errorf("error %v", err)
			}
		})
	}
}

// One flag says how to trust kubelets, whichever component reads them.
func TestRunConfig_kubeletInsecure_appliesToTheUpdater(t *testing.T) {
	for args, want := range map[string]bool{"--dry-run=false": false, "--kubelet-insecure-tls": true} {
		config := runDefaults()
		fs := pflag.NewFlagSet("run", pflag.ContinueOnError)
		config.Flags(fs)
		if err := fs.Parse([]string{args}); err != nil {
			t.Fatal(err)
		}
		if config.share(); config.Updater.KubeletInsecure != want || config.Recommender.KubeletInsecure != want {
			t.Errorf("%s: updater %v, recommender %v", args, config.Updater.KubeletInsecure, config.Recommender.KubeletInsecure)
		}
	}
}
