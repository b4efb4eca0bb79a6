# frame.sh MODE HOST...: runs client.sh for each host, in a folder of the host's name, with gobox's proxy variables (proxied), with SOCKS
# instead (socks), or without any, and says how it ended.
export mode=$1
proxy=$ALL_PROXY
shift
if [ "$mode" != proxied ]; then
	unset HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY http_proxy https_proxy all_proxy no_proxy
fi
[ "$mode" != socks ] || export ALL_PROXY="socks5h://${proxy#http://}"
for HOST; do
	export HOST
	mkdir "$HOST"
	(cd "$HOST" && sh -e ../client.sh)
	echo "$HOST ended with $?"
done
