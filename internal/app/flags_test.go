// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/spf13/pflag"

	"podfit.dev/podfit/internal/app/admission"
	"podfit.dev/podfit/internal/app/commandline"
	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/app/recommender"
	"podfit.dev/podfit/internal/app/updater"
)

// probes are values other than the default, by type of flag.
var probes = map[string][]string{
	"bool": {"true", "false"}, "int": {"7"}, "int64": {"7"}, "float64": {"7.5"}, "float32": {"7.5"}, "duration": {"77s"},
	"string": {"probe"}, "quantity": {"77"}, "mapStringBool": {"InPlace=true"},
}

// leaves adds the value of every field of a configuration to out, by its path.
func leaves(path string, v reflect.Value, out map[string]string) {
	switch v.Kind() {
	case reflect.Struct:
		if v.CanInterface() {
			if s, ok := v.Addr().Interface().(fmt.Stringer); ok {
				out[path] = s.String()
				return
			}
		}
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				leaves(path+"."+f.Name, v.Field(i), out)
			}
		}
	default:
		out[path] = fmt.Sprint(v.Interface())
	}
}

// sameFlag contains flags with a second name.
var sameFlag = map[string]string{"namespace": "vpa-object-namespace"}

func TestFlags_eachFlag_setsItsOwnField(t *testing.T) {
	for name, fresh := range map[string]func() process.Settings{
		"recommender":          func() process.Settings { c := recommender.Defaults(); return &c },
		"updater":              func() process.Settings { c := updater.Defaults(); return &c },
		"admission-controller": func() process.Settings { c := admission.Defaults(); return &c },
	} {
		owner := map[string]string{}
		command(t, name).Flags().VisitAll(func(f *pflag.Flag) {
			if f.Name == "help" || f.Name == commandline.HelpAll || klogIgnores(f) { // TestLogConfig_klogFlagsWithoutEffect_logWarning
				return
			}
			values := probes[f.Value.Type()]
			if len(values) == 0 {
				t.Errorf("%s --%s is of type %s, for which the test has no value", name, f.Name, f.Value.Type())
			}
			changed := map[string]bool{}
			for _, value := range values {
				before, after := map[string]string{}, map[string]string{}
				leaves("", reflect.ValueOf(fresh()).Elem(), before)
				c := fresh()
				fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
				c.Flags(fs)
				if err := fs.Parse([]string{"--" + f.Name + "=" + value}); err != nil {
					t.Fatal(err)
				}
				leaves("", reflect.ValueOf(c).Elem(), after)
				for path := range after {
					if before[path] != after[path] {
						changed[path] = true
					}
				}
			}
			if len(changed) != 1 {
				t.Errorf("%s: --%s sets the fields %v, want one field", name, f.Name, changed)
			}
			for path := range changed {
				if other := owner[path]; other != "" && f.Name != sameFlag[other] && other != sameFlag[f.Name] {
					t.Errorf("%s: --%s and --%s set the same field %s", name, f.Name, other, path)
				}
				owner[path] = f.Name
			}
		})
	}
}
