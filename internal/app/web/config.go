// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"podfit.dev/podfit/internal/app/process"
	"podfit.dev/podfit/internal/edge/web"
)

// Config is the configuration of the web page.
type Config struct {
	Address         string   // where the page is served; "" means that it is not
	Auth            string   // how viewers are authenticated: one of web.Modes
	Hosts           []string // names of the server in addition to those of loopback
	Proxies         []string // addresses of proxies whose headers are accepted
	Prices          string   // price file; "" if there is none
	Unauthenticated bool     // viewers on other machines need no authentication
	Excluded        []string // names and patterns of namespaces that are not shown
}

// Defaults returns the configuration of "podfit run": the page is off, and viewers need a token.
func Defaults() Config {
	return Config{Auth: string(web.Token), Proxies: []string{"127.0.0.1/32", "::1/128"}}
}

// LocalDefaults returns the configuration of "podfit web": for a viewer on the same machine.
func LocalDefaults() Config {
	c := Defaults()
	c.Address = "127.0.0.1:8945"
	c.Auth = string(web.None)
	return c
}

// Flags binds the configuration to flags.
func (c *Config) Flags(fs *pflag.FlagSet) {
	fs.StringVar(&c.Address, "web-address", c.Address, "Address on which the web page is served, for example :8945. Empty means that it is not served. "+
		"If the page is behind a Service, set --web-hosts to the name that viewers use.")
	fs.StringVar(&c.Auth, "web-auth", c.Auth, "How viewers of the web page are authenticated: token (a Kubernetes token, as a bearer token or as the password), "+
		"header (a proxy names the user in X-Forwarded-User and the groups in X-Forwarded-Groups) or none. "+
		"With token and header, viewers see the namespaces in which they may list verticalpodautoscalers and pods.")
	fs.StringSliceVar(&c.Hosts, "web-hosts", c.Hosts, "Comma-separated list of host names of the web page, in addition to localhost and loopback addresses. "+
		"Requests for other hosts are refused. * allows all, and is only safe with --web-auth=token.")
	fs.StringSliceVar(&c.Excluded, "web-exclude-namespaces", c.Excluded, "Comma-separated list of namespaces, or patterns such as 'kube-*', whose workloads the web page does not show. "+
		"The capacity of nodes includes their pods.")
	fs.StringSliceVar(&c.Proxies, "web-trusted-proxies", c.Proxies, "Comma-separated list of addresses of proxies, in CIDR notation. With --web-auth=header, requests from other addresses are refused.")
	fs.StringVar(&c.Prices, "web-prices", c.Prices, "Path of a YAML file with prices of nodes, as for podfit recommend --prices. Empty means that the page shows no money.")
	fs.BoolVar(&c.Unauthenticated, "web-unauthenticated", c.Unauthenticated, "If true, allow --web-auth=none on an address that other machines can reach. "+
		"Everyone who can connect sees all workloads that podfit can read.")
}

// Validate returns an error for each invalid flag, with the flag's name and the values it accepts.
func (c *Config) Validate() error {
	if c.Address == "" {
		return nil
	}
	var errs process.Problems
	errs.AddIf(!slices.Contains(web.Modes[:], web.Mode(c.Auth)), "--web-auth must be token, header or none, got %q", c.Auth)
	host, _, err := net.SplitHostPort(c.Address)
	ip := net.ParseIP(strings.Trim(host, "[]"))
	isLocal := host == "localhost" || ip != nil && ip.IsLoopback()
	errs.AddIf(err != nil, "--web-address must be HOST:PORT or :PORT, got %q", c.Address)
	errs.AddIf(err == nil && web.Mode(c.Auth) == web.None && !isLocal && !c.Unauthenticated, "--web-auth=none on %s would show all workloads to everyone "+
		"who can connect; use --web-auth=token, an address such as 127.0.0.1:8945, or --web-unauthenticated if everyone may see them", c.Address)
	errs.AddIf(web.Mode(c.Auth) != web.Token && slices.Contains(c.Hosts, "*"), "--web-hosts=* needs --web-auth=token: otherwise any web site that a viewer opens could read the page")
	_, err = c.prefixes()
	errs = append(errs, err)
	errs = append(errs, process.CheckNamespaces("web-exclude-namespaces", c.Excluded)...)
	return errors.Join(errs...)
}

func (c *Config) prefixes() ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, text := range c.Proxies {
		if address, err := netip.ParseAddr(text); err == nil {
			out = append(out, netip.PrefixFrom(address, address.BitLen()))
			continue
		}
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("--web-trusted-proxies must be a list of addresses such as 10.0.0.0/8, got %q", text)
		}
		out = append(out, prefix)
	}
	return out, nil
}
