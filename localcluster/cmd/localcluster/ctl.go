// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

func ctl() *cobra.Command {
	c := &cobra.Command{Use: "ctl", Short: "Query and control a running cluster"}
	d := &control{}
	d.flag(c)
	for _, do := range []string{"stop", "start", "kill"} {
		c.AddCommand(&cobra.Command{
			Use: do + " PART...", Short: do + " parts of the cluster, and wait until it is done", Args: cobra.MinimumNArgs(1),
			RunE: func(c *cobra.Command, parts []string) error {
				for _, p := range parts {
					if err := d.call(c, http.MethodPost, "/parts/"+p+"/"+do, nil); err != nil {
						return err
					}
				}
				return nil
			},
		})
	}
	for path, short := range map[string]string{"parts": "list the parts", "containers": "usage, limits and restarts of every container", "cluster": "addresses and credentials of the cluster", "clock": "the scenario's time", "demands": "the active overrides"} {
		c.AddCommand(&cobra.Command{Use: path, Short: "Show " + short, Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error {
			return d.call(c, http.MethodGet, "/"+path, nil)
		}})
	}
	c.AddCommand(&cobra.Command{
		Use: "demand NAMESPACE/POD/CONTAINER [cpu=...] [memory=...] [pressure=...] [exit=...] [ready=...]", Args: cobra.MinimumNArgs(1),
		Short: "Override what a container uses; POD may end with *; without values, the override is removed",
		RunE: func(c *cobra.Command, args []string) error {
			script := map[string]string{}
			for _, a := range args[1:] {
				name, value, ok := strings.Cut(a, "=")
				if !ok {
					return fmt.Errorf("argument must have the form NAME=VALUE, got %q", a)
				}
				script[name] = value
			}
			if len(script) == 0 {
				return d.call(c, http.MethodDelete, "/demands/"+args[0], nil)
			}
			text, err := json.Marshal(script)
			if err != nil {
				return err
			}
			return d.call(c, http.MethodPut, "/demands/"+args[0], text)
		},
	}, &cobra.Command{
		Use: "scenario FILE", Short: "Replace the scenario", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			text, err := os.ReadFile(args[0])
			if err != nil {
				return err
			}
			return d.call(c, http.MethodPut, "/scenario", text)
		},
	}, &cobra.Command{Use: "quit", Short: "Stop the cluster", Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error {
		return d.call(c, http.MethodPost, "/quit", nil)
	}})
	return c
}

func kubeconfig() *cobra.Command {
	d := &control{}
	var user string
	var groups []string
	c := &cobra.Command{
		Use: "kubeconfig", Short: "Print a kubeconfig for any user", Args: cobra.NoArgs,
		Long: "Print a kubeconfig for any user. A service account is the user system:serviceaccount:NAMESPACE:NAME;\n" +
			"its groups (system:serviceaccounts, system:serviceaccounts:NAMESPACE) are added if none are given.",
		RunE: func(c *cobra.Command, _ []string) error {
			q := url.Values{"user": {user}, "group": groups}
			return d.call(c, http.MethodGet, "/kubeconfig?"+q.Encode(), nil)
		},
	}
	d.flag(c)
	c.Flags().StringVar(&user, "user", "", "name of the user")
	c.Flags().StringArrayVar(&groups, "group", nil, "group of the user; may be repeated")
	_ = c.MarkFlagRequired("user")
	return c
}

// control is a client of a running cluster's control API.
type control struct{ url string }

func (d *control) flag(c *cobra.Command) {
	c.PersistentFlags().StringVar(&d.url, "control", os.Getenv("LOCALCLUSTER"), "URL of the control API, as printed by localcluster up (default: $LOCALCLUSTER)")
}

func (d *control) call(c *cobra.Command, method, path string, body []byte) error {
	if d.url == "" {
		return errors.New("no cluster selected: set LOCALCLUSTER or --control to the URL that localcluster up printed")
	}
	q, err := http.NewRequestWithContext(c.Context(), method, strings.TrimSuffix(d.url, "/")+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	reply, err := http.DefaultClient.Do(q)
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	if reply.StatusCode >= 300 {
		text, _ := io.ReadAll(reply.Body)
		return fmt.Errorf("%s: %s", reply.Status, strings.TrimSpace(string(text)))
	}
	_, err = io.Copy(c.OutOrStdout(), reply.Body)
	return err
}
