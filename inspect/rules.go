package inspect

// class is a set of ASCII characters.
type class [2]uint64

func (c *class) has(b byte) bool { return b < 128 && c[b>>6]>>(b&63)&1 != 0 }

func classOf(ranges string) class {
	var c class
	for i := 0; i+1 < len(ranges); i += 2 {
		for b := ranges[i]; b <= ranges[i+1]; b++ {
			c[b>>6] |= 1 << (b & 63)
		}
	}
	return c
}

// rule is a kind of token: a prefix, and behind it between least and most characters of a class. Where the token ends, a
// character of the class may not follow, but for most == 0, which is without end.
type rule struct {
	kind   string
	prefix string
	of     class
	least  int
	most   int
	// more, when set, judges the text from the prefix on, of which there are lookahead bytes or all, and gives the length
	// up to which it is certain, or 0.
	more func(text []byte) int
}

// rules gives the table. A kind is in it when its maker gives it a prefix of its own: what can only be told by a word such as
// "password" beside it is left to the rule for long runs. Scanners such as
// gitleaks have more kinds and, as libraries, cost every start of gobox too much (docs/output.md).
func rules() []rule {
	var (
		word    = classOf("09AZaz__")
		url     = classOf("09AZaz__--")
		base64  = classOf("09AZaz++//==")
		dotted  = classOf("09AZaz__--..")
		upper   = classOf("09AZ")
		alnum   = classOf("09AZaz")
		hex     = classOf("09af")
		hexAny  = classOf("09afAF")
		digits  = classOf("09--AZaz")
		slack   = classOf("09AZaz--")
		webhook = classOf("09AZaz//")
		age     = classOf("09AZ")
	)
	return []rule{
		// docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html, "Understanding unique ID prefixes"
		{kind: "aws_access_key", prefix: "AKIA", of: upper, least: 16, most: 16},
		{kind: "aws_access_key", prefix: "ASIA", of: upper, least: 16, most: 16},
		{kind: "aws_secret_key", prefix: "aws_secret_access_key", of: base64, more: awsSecret},
		{kind: "aws_secret_key", prefix: "AWS_SECRET_ACCESS_KEY", of: base64, more: awsSecret},
		{kind: "aws_secret_key", prefix: "SecretAccessKey", of: base64, more: awsSecret},
		{kind: "aws_bearer_token", prefix: "ABSK", of: base64, least: 100, most: 300},
		// cloud.google.com/docs/authentication/api-keys
		{kind: "gcp_api_key", prefix: "AIza", of: url, least: 35, most: 35},
		{kind: "gcp_oauth_token", prefix: "ya29.", of: url, least: 30},
		{kind: "gcp_oauth_secret", prefix: "GOCSPX-", of: url, least: 28, most: 28},
		// Storage and other shared keys in connection strings: learn.microsoft.com/azure/storage/common/storage-configure-connection-string
		{kind: "azure_account_key", prefix: "AccountKey=", of: base64, least: 40, most: 100},
		{kind: "azure_shared_key", prefix: "SharedAccessKey=", of: base64, least: 40, most: 100},
		// learn.microsoft.com/rest/api/storageservices/create-service-sas: the signature of a shared access signature
		{kind: "azure_sas", prefix: "sig=", of: classOf("09AZaz%%"), least: 43, most: 80},
		// github.blog, "Behind GitHub's new authentication token formats"
		{kind: "github_token", prefix: "ghp_", of: alnum, least: 36},
		{kind: "github_token", prefix: "gho_", of: alnum, least: 36},
		{kind: "github_token", prefix: "ghu_", of: alnum, least: 36},
		{kind: "github_token", prefix: "ghs_", of: alnum, least: 36},
		{kind: "github_token", prefix: "ghr_", of: alnum, least: 36},
		{kind: "github_token", prefix: "github_pat_", of: word, least: 60},
		// docs.gitlab.com/security/tokens, "Token prefixes"
		{kind: "gitlab_token", prefix: "glpat-", of: dotted, least: 20},
		{kind: "gitlab_token", prefix: "gldt-", of: url, least: 20},
		{kind: "gitlab_token", prefix: "glrt-", of: dotted, least: 20},
		{kind: "gitlab_token", prefix: "glcbt-", of: url, least: 20},
		{kind: "gitlab_token", prefix: "glptt-", of: url, least: 20},
		{kind: "gitlab_token", prefix: "glft-", of: url, least: 20},
		{kind: "gitlab_token", prefix: "glsoat-", of: url, least: 20},
		{kind: "gitlab_token", prefix: "glagent-", of: url, least: 20},
		// api.slack.com/concepts/token-types
		{kind: "slack_token", prefix: "xoxb-", of: slack, least: 20},
		{kind: "slack_token", prefix: "xoxp-", of: slack, least: 20},
		{kind: "slack_token", prefix: "xoxa-", of: slack, least: 20},
		{kind: "slack_token", prefix: "xoxr-", of: slack, least: 20},
		{kind: "slack_token", prefix: "xoxs-", of: slack, least: 20},
		{kind: "slack_token", prefix: "xoxe-", of: slack, least: 20},
		{kind: "slack_token", prefix: "xapp-", of: slack, least: 20},
		{kind: "slack_webhook", prefix: "hooks.slack.com/services/", of: webhook, least: 30, most: 90},
		{kind: "discord_webhook", prefix: "discord.com/api/webhooks/", of: classOf("09AZaz__--//"), least: 60, most: 140},
		// docs.stripe.com/keys
		{kind: "stripe_key", prefix: "sk_live_", of: alnum, least: 20},
		{kind: "stripe_key", prefix: "sk_test_", of: alnum, least: 20},
		{kind: "stripe_key", prefix: "rk_live_", of: alnum, least: 20},
		{kind: "stripe_key", prefix: "rk_test_", of: alnum, least: 20},
		{kind: "stripe_key", prefix: "whsec_", of: classOf("09AZaz++//=="), least: 30},
		// platform.openai.com, docs.anthropic.com and those that took over the form
		{kind: "anthropic_key", prefix: "sk-ant-", of: url, least: 32},
		{kind: "openai_key", prefix: "sk-proj-", of: url, least: 32},
		{kind: "openai_key", prefix: "sk-svcacct-", of: url, least: 32},
		{kind: "openai_key", prefix: "sk-admin-", of: url, least: 32},
		{kind: "openrouter_key", prefix: "sk-or-v1-", of: hex, least: 64, most: 64},
		{kind: "openai_key", prefix: "sk-", of: alnum, least: 32},
		{kind: "groq_key", prefix: "gsk_", of: alnum, least: 40},
		{kind: "xai_key", prefix: "xai-", of: alnum, least: 60},
		{kind: "perplexity_key", prefix: "pplx-", of: alnum, least: 40},
		{kind: "replicate_token", prefix: "r8_", of: alnum, least: 37, most: 37},
		{kind: "huggingface_token", prefix: "hf_", of: alnum, least: 30},
		// docs.npmjs.com/about-access-tokens, github.blog on npm's format
		{kind: "npm_token", prefix: "npm_", of: alnum, least: 36, most: 36},
		// pypi.org/help, "apitoken": a macaroon for pypi.org or test.pypi.org
		{kind: "pypi_token", prefix: "pypi-AgE", of: url, least: 50},
		{kind: "rubygems_token", prefix: "rubygems_", of: hex, least: 48, most: 48},
		{kind: "crates_token", prefix: "cio", of: alnum, least: 32, most: 32},
		{kind: "docker_token", prefix: "dckr_pat_", of: url, least: 27},
		{kind: "docker_token", prefix: "dckr_oat_", of: url, least: 32},
		// docs.digitalocean.com/reference/api, developer.hashicorp.com/vault/docs/concepts/tokens, and so on
		{kind: "digitalocean_token", prefix: "dop_v1_", of: hex, least: 64, most: 64},
		{kind: "digitalocean_token", prefix: "doo_v1_", of: hex, least: 64, most: 64},
		{kind: "digitalocean_token", prefix: "dor_v1_", of: hex, least: 64, most: 64},
		{kind: "vault_token", prefix: "hvs.", of: url, least: 24},
		{kind: "vault_token", prefix: "hvb.", of: url, least: 24},
		{kind: "databricks_token", prefix: "dapi", of: hex, least: 32, most: 32},
		{kind: "sendgrid_key", prefix: "SG.", of: dotted, least: 60, most: 70},
		{kind: "mailgun_key", prefix: "key-", of: hex, least: 32, most: 32},
		{kind: "twilio_key", prefix: "SK", of: hex, least: 32, most: 32},
		{kind: "shopify_token", prefix: "shpat_", of: hexAny, least: 32, most: 32},
		{kind: "shopify_token", prefix: "shpss_", of: hexAny, least: 32, most: 32},
		{kind: "shopify_token", prefix: "shppa_", of: hexAny, least: 32, most: 32},
		{kind: "square_token", prefix: "EAAA", of: url, least: 60, most: 60},
		{kind: "linear_key", prefix: "lin_api_", of: alnum, least: 40},
		{kind: "notion_token", prefix: "ntn_", of: alnum, least: 40},
		{kind: "figma_token", prefix: "figd_", of: url, least: 40},
		{kind: "grafana_token", prefix: "glsa_", of: word, least: 40},
		{kind: "grafana_token", prefix: "glc_", of: base64, least: 32},
		{kind: "newrelic_key", prefix: "NRAK-", of: upper, least: 27, most: 27},
		{kind: "postman_key", prefix: "PMAK-", of: digits, least: 50, most: 70},
		{kind: "pulumi_token", prefix: "pul-", of: hex, least: 40, most: 40},
		{kind: "doppler_token", prefix: "dp.pt.", of: alnum, least: 40},
		{kind: "fly_token", prefix: "fm2_", of: base64, least: 80},
		{kind: "supabase_key", prefix: "sbp_", of: hex, least: 40, most: 40},
		{kind: "tailscale_key", prefix: "tskey-", of: slack, least: 20},
		{kind: "planetscale_token", prefix: "pscale_tkn_", of: dotted, least: 32},
		{kind: "atlassian_token", prefix: "ATATT3", of: classOf("09AZaz__--=="), least: 100},
		// core.telegram.org/bots/api has no prefix, and so no rule.
		{kind: "age_key", prefix: "AGE-SECRET-KEY-1", of: age, least: 58, most: 58},
		// RFC 3986, section 3.2.1, which deprecates it for good reason
		{kind: "url_password", prefix: "://", of: class{}, more: urlPassword},
		// RFC 7519 in the compact form of RFC 7515; {" in base64url is eyJ, or ewo and others with white space
		{kind: "jwt", prefix: "eyJ", of: dotted, least: 20, more: jwt},
		// RFC 7468, and what OpenSSH and RFC 4880 (section 6.2) put in the same form
		{kind: "private_key", prefix: "-----BEGIN ", more: pem},
		{kind: "private_key", prefix: "---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----", least: 0},
		{kind: "private_key", prefix: "PuTTY-User-Key-File-", least: 0},
	}
}

// jwt wants a header and a second part that is an object too.
func jwt(text []byte) int {
	at, dots := 0, 0
	for ; at < len(text); at++ {
		switch b := text[at]; {
		case b == '.':
			if dots++; dots == 2 {
				return at + 1
			}
			if at < 16 || len(text) < at+4 || text[at+1] != 'e' {
				return 0
			}
		case b >= '0' && b <= '9', b >= 'A' && b <= 'Z', b >= 'a' && b <= 'z', b == '_', b == '-':
		default:
			return 0
		}
	}
	if dots == 1 && len(text) == lookahead {
		// The second part is longer than anyone looks ahead.
		return at
	}
	return 0
}

// awsSecret wants the 40 characters of a secret access key behind its name, whatever form of assignment is between them.
func awsSecret(text []byte) int {
	at := 0
	for ; at < len(text) && (isAlnum(text[at]) || text[at] == '_'); at++ {
	}
	for i := 0; i < 6 && at < len(text) && !isAlnum(text[at]) && text[at] != '/' && text[at] != '+'; i++ {
		at++
	}
	begin := at
	for ; at < len(text) && (isAlnum(text[at]) || text[at] == '/' || text[at] == '+'); at++ {
	}
	if at-begin != 40 {
		return 0
	}
	return at
}

func isAlnum(b byte) bool {
	return b >= '0' && b <= '9' || b >= 'A' && b <= 'Z' || b >= 'a' && b <= 'z'
}

// urlPassword wants user:password@ behind ://.
func urlPassword(text []byte) int {
	colon := 0
	for at := len("://"); at < min(len(text), 256); at++ {
		switch b := text[at]; {
		case b == ':' && colon == 0:
			colon = at
		case b == '@':
			if colon == 0 || at == colon+1 {
				return 0
			}
			return at
		case b <= ' ' || b == '/' || b == '?' || b == '#' || b == '"' || b == '\'' || b == '<' || b == '>' || b == '$' || b == '{' || b >= 0x7f:
			return 0
		}
	}
	return 0
}

// pem gives the length of the first line of a private key.
func pem(text []byte) int {
	const dashes = "-----"
	line := text[len("-----BEGIN "):min(len(text), 80)]
	for i := range line {
		b := line[i]
		if b == '-' {
			label := string(line[:i])
			if len(line) < i+len(dashes) || string(line[i:i+len(dashes)]) != dashes {
				return 0
			}
			if !hasSuffix(label, "PRIVATE KEY") && !hasSuffix(label, "PRIVATE KEY BLOCK") {
				return 0
			}
			return len("-----BEGIN ") + i + len(dashes)
		}
		if b != ' ' && (b < 'A' || b > 'Z') && (b < '0' || b > '9') {
			return 0
		}
	}
	return 0
}

func hasSuffix(s, end string) bool { return len(s) >= len(end) && s[len(s)-len(end):] == end }
