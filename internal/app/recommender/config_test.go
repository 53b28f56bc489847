// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"testing"

	"github.com/spf13/pflag"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/core/cluster"
)

func TestConfig_flagsWithUnderscores_areAccepted(t *testing.T) {
	c := Defaults()
	fs := pflag.NewFlagSet("recommender", pflag.ContinueOnError)
	fs.SetNormalizeFunc(process.Dashes)
	c.Flags(fs)
	err := fs.Parse([]string{"--recommender_interval=5s", "--v=2", "-v=3", "--stderrthreshold=info", "--add_dir_header",
		"--container_recommendation_max_allowed_memory=1Gi", "--ignored-vpa-object-namespaces="})
	if err != nil {
		t.Fatal(err)
	}
	if c.Interval.Seconds() != 5 || c.Log.Verbosity != 3 {
		t.Errorf("interval %v, verbosity %d", c.Interval, c.Log.Verbosity)
	}
	if got := c.MaxAllowed(); got != (cluster.Resources{Memory: 1 << 30, Has: cluster.Of(cluster.Memory)}) {
		t.Errorf("maximum %v", got)
	}
	if len(c.IgnoredNamespaces) != 0 { // W-17: an empty value is an empty list, not a list of one empty name
		t.Errorf("ignored namespaces are %q", c.IgnoredNamespaces)
	}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
}

func TestServes_recommenderNameAndNamespace_selectVPAs(t *testing.T) {
	tests := map[string]struct {
		name      string
		only      string
		ignored   []string
		asked, ns string
		want      bool
	}{
		"default, VPA without a name": {name: "default", want: true},
		"default, VPA names default":  {name: "default", asked: "default", want: true},
		"default, VPA names another":  {name: "default", asked: "cost"},
		"named, VPA without a name":   {name: "cost"},
		"named, VPA names it":         {name: "cost", asked: "cost", want: true},
		"ignored namespace":           {name: "default", ignored: []string{"shop"}, ns: "shop"},
		"not the only namespace":      {name: "default", only: "shop", ns: "web"},
		"only namespace":              {name: "default", only: "shop", ns: "shop", want: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := Defaults()
			c.Name, c.Namespace, c.IgnoredNamespaces = tt.name, tt.only, tt.ignored
			a := &cluster.Autoscaler{Key: cluster.Key{Namespace: tt.ns, Name: "a"}, Recommender: tt.asked}
			if got := c.Serves(a); got != tt.want {
				t.Errorf("got %t, want %t", got, tt.want)
			}
		})
	}
}
