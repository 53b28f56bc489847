// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package recommender

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"podfit.dev/podfit/internal/app/process"
)

// Each flag is tested with the last value that is valid, and the first that is not.
func TestConfig_flagsAtTheirLimits_areAcceptedOrRejected(t *testing.T) {
	for flags, want := range map[string]string{ // the error; "" if the flags are valid
		"--recommender-interval=1ns":                                   "",
		"--recommender-interval=0s":                                    "--recommender-interval must be greater than 0, got 0s",
		"--memory-aggregation-interval=1ns":                            "",
		"--memory-aggregation-interval=0s":                             "--memory-aggregation-interval must be greater than 0, got 0s",
		"--memory-histogram-decay-half-life=1ns":                       "",
		"--memory-histogram-decay-half-life=0s":                        "--memory-histogram-decay-half-life must be greater than 0, got 0s",
		"--cpu-histogram-decay-half-life=1ns":                          "",
		"--cpu-histogram-decay-half-life=0s":                           "--cpu-histogram-decay-half-life must be greater than 0, got 0s",
		"--confidence-interval-cpu=1ns":                                "",
		"--confidence-interval-cpu=0s":                                 "--confidence-interval-cpu must be greater than 0, got 0s",
		"--confidence-interval-memory=1ns":                             "",
		"--confidence-interval-memory=0s":                              "--confidence-interval-memory must be greater than 0, got 0s",
		"--target-cpu-percentile=0":                                    "",
		"--target-cpu-percentile=1":                                    "",
		"--target-cpu-percentile=1.1":                                  "--target-cpu-percentile must be between 0 and 1, got 1.1",
		"--target-memory-percentile=0":                                 "",
		"--target-memory-percentile=1":                                 "",
		"--target-memory-percentile=1.1":                               "--target-memory-percentile must be between 0 and 1, got 1.1",
		"--recommendation-lower-bound-cpu-percentile=0":                "",
		"--recommendation-lower-bound-cpu-percentile=1":                "",
		"--recommendation-lower-bound-cpu-percentile=1.1":              "--recommendation-lower-bound-cpu-percentile must be between 0 and 1, got 1.1",
		"--recommendation-lower-bound-memory-percentile=0":             "",
		"--recommendation-lower-bound-memory-percentile=1":             "",
		"--recommendation-lower-bound-memory-percentile=1.1":           "--recommendation-lower-bound-memory-percentile must be between 0 and 1, got 1.1",
		"--recommendation-upper-bound-cpu-percentile=0":                "",
		"--recommendation-upper-bound-cpu-percentile=1":                "",
		"--recommendation-upper-bound-cpu-percentile=1.1":              "--recommendation-upper-bound-cpu-percentile must be between 0 and 1, got 1.1",
		"--recommendation-upper-bound-memory-percentile=0":             "",
		"--recommendation-upper-bound-memory-percentile=1":             "",
		"--recommendation-upper-bound-memory-percentile=1.1":           "--recommendation-upper-bound-memory-percentile must be between 0 and 1, got 1.1",
		"--target-cpu-percentile=-0.1":                                 "--target-cpu-percentile must be between 0 and 1, got -0.1",
		"--target-cpu-percentile=NaN":                                  "--target-cpu-percentile must be between 0 and 1, got NaN",
		"--recommendation-margin-fraction=0":                           "",
		"--recommendation-margin-fraction=-0.1":                        "--recommendation-margin-fraction must be at least 0, got -0.1",
		"--oom-bump-up-ratio=1":                                        "",
		"--oom-bump-up-ratio=0.9":                                      "--oom-bump-up-ratio must be at least 1, got 0.9",
		"--oom-min-bump-up-bytes=0":                                    "",
		"--oom-min-bump-up-bytes=-1":                                   "--oom-min-bump-up-bytes must be at least 0, got -1",
		"--memory-aggregation-interval-count=1":                        "",
		"--memory-aggregation-interval-count=0":                        "--memory-aggregation-interval-count must be at least 1, got 0",
		"--round-cpu-millicores=1 --round-memory-bytes=1":              "",
		"--round-cpu-millicores=0":                                     "--round-cpu-millicores and --round-memory-bytes must be at least 1",
		"--round-memory-bytes=0":                                       "--round-cpu-millicores and --round-memory-bytes must be at least 1",
		"--update-worker-count=1":                                      "",
		"--update-worker-count=0":                                      "--update-worker-count must be at least 1, got 0",
		"--storage=":                                                   "",
		"--storage=checkpoint":                                         "",
		"--storage=prometheus":                                         "",
		"--storage=etcd":                                               `--storage must be checkpoint or prometheus, got "etcd"`,
		"--prometheus-bearer-token=a":                                  "",
		"--prometheus-bearer-token-file=b":                             "",
		"--prometheus-bearer-token=a --prometheus-bearer-token-file=b": "--prometheus-bearer-token and --prometheus-bearer-token-file cannot both be set",
	} {
		c := Defaults()
		fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
		fs.SetNormalizeFunc(process.Dashes)
		c.Flags(fs)
		if err := fs.Parse(strings.Fields(flags)); err != nil {
			t.Fatal(err)
		}
		err := c.Validate()
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: error %v, want none", flags, err)
		case want != "" && (err == nil || err.Error() != want):
			t.Errorf("%s: error %v, want %s", flags, err, want)
		}
	}
}
