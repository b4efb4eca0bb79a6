module.exports = 'dep 1.0.0';
